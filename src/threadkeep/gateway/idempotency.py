"""``Idempotency-Key``: for 24 hours, a POST with the key of an earlier one gets its answer, from any process."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from typing_extensions import override

from threadkeep.errors import StorageError
from threadkeep.gateway.auth import admit
from threadkeep.gateway.problems import ProblemError
from threadkeep.ids import digest, short_digest
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.principals import Principal
    from threadkeep.identity import Owner

MINUTES: Final = 24 * 60
KEY_CHARACTERS: Final = 200
CLAIM_MINUTES: Final = 2
"""How long a request may take; the claim of a process that was killed is free after that."""

WAIT_SECONDS: Final = 10.0
"""How long a repeated request waits for the answer to the first one."""

_POLL_SECONDS: Final = 0.05

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of a request.

    Attributes:
        key: As the client sent it.
        fingerprint: A digest of the request: another one with the same key is refused.
    """

    key: str
    fingerprint: str


def request_key(request: Request, principal: Principal, *parts: str) -> RequestKey | None:
    """Return the key of a request, or None if it has none.

    Args:
        request: The request.
        principal: Who makes it.
        parts: What the request asks for.

    Raises:
        ProblemError: The key is empty or too long.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= KEY_CHARACTERS:
        detail = f"Idempotency-Key must have 1 to {KEY_CHARACTERS} characters."
        raise ProblemError(422, "input_invalid", detail)
    return RequestKey(key, digest(request.method, request.url.path, principal.subject, *parts).hex())


def require_same(value: Mapping[str, Any], key: RequestKey) -> None:
    """Refuse a request with the key of another one.

    Args:
        value: What is kept under the key.
        key: The key.

    Raises:
        ProblemError: The two requests differ.
    """
    if value["fingerprint"] != key.fingerprint:
        detail = "An earlier request with another address or body has this Idempotency-Key; use a new one."
        raise ProblemError(422, "idempotency_key_reused", detail)


class KeptAnswers:
    """The answers of one owner, by key, among the owner's items. Of all processes, one claims a key.

    Args:
        tk: The memory.
        owner: The owner.
    """

    def __init__(self, tk: Threadkeep, owner: Owner) -> None:
        self._store: Any = tk.for_owner(owner).store
        self._namespace = ("users", owner.label, "gateway", "idempotency")

    async def find(self, key: RequestKey) -> dict[str, Any] | None:
        """Return what is kept under a key, or None.

        Raises:
            ProblemError: Another request has the key.
        """
        item = await self._store.aget(self._namespace, short_digest(key.key))
        if item is None:
            return None
        require_same(item.value, key)
        return item.value

    async def claim(self, key: RequestKey, value: dict[str, Any], *, minutes: float) -> bool:
        """Keep *value* under a key that nothing is kept under; return whether it was kept."""
        value = {"fingerprint": key.fingerprint, **value}
        return await self._store.aput_new(self._namespace, short_digest(key.key), value, ttl=minutes)

    async def keep(self, key: RequestKey, value: dict[str, Any]) -> None:
        """Keep the answer of the request that has claimed the key."""
        value = {"fingerprint": key.fingerprint, **value}
        await self._store.aput(self._namespace, short_digest(key.key), value, index=False, ttl=MINUTES)

    async def release(self, key: RequestKey) -> None:
        """Free the key of a request that was refused, or failed."""
        await self._store.adelete(self._namespace, short_digest(key.key))


class IdempotentRoute(APIRoute):
    """A route that keeps its answers to POST requests with a key among the items of the owner.

    The answer of such a route holds ids and no texts, so that what is forgotten is not kept here.
    """

    async def kept_body(self, body: str) -> str:
        """Return what is kept of the body of an answer."""
        return body

    async def restored_body(self, body: str, tk: Threadkeep) -> str:
        """Return the body of an answer from what was kept of it; *tk* is locked to the owner."""
        del tk
        return body

    @override
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            if request.method != "POST" or "idempotency-key" not in request.headers:
                return await handle(request)
            principal = await admit(request)
            body = base64.b64encode(await request.body()).decode()
            key = request_key(request, principal, body)
            if key is None:
                return await handle(request)
            tk = request.app.state.gateway.tk
            kept = KeptAnswers(tk, principal.owner)
            earlier = await _claimed_or_answered(kept, key)
            if earlier is not None:
                return _replay(earlier, await self.restored_body(earlier["body"], tk.for_owner(principal.owner)))
            try:
                response = await handle(request)
                value = {
                    "status": response.status_code,
                    "body": await self.kept_body(bytes(response.body).decode()),
                    "etag": response.headers.get("etag"),
                }
            except BaseException:
                await _release(kept, key)
                raise
            await _keep(kept, key, value)
            return response

        return answer


async def _claimed_or_answered(kept: KeptAnswers, key: RequestKey) -> dict[str, Any] | None:
    """Claim the key and return None, or return the answer to the request that has claimed it.

    Raises:
        ProblemError: That request is not answered yet, or asks for something else.
    """
    for _ in range(int(WAIT_SECONDS / _POLL_SECONDS)):
        earlier = await kept.find(key)
        if earlier is None and await kept.claim(key, {}, minutes=CLAIM_MINUTES):
            return None
        if earlier is not None and "body" in earlier:
            return earlier
        await asyncio.sleep(_POLL_SECONDS)
    detail = "An earlier request with this Idempotency-Key is in progress; try again in a moment."
    raise ProblemError(409, "request_in_progress", detail, retry_after=1)


async def _keep(kept: KeptAnswers, key: RequestKey, value: dict[str, Any]) -> None:
    """Keep an answer. If that fails, the client gets it all the same: the request had its effect."""
    try:
        await kept.keep(key, value)
    except StorageError as error:
        log.warning("The answer to a request with an Idempotency-Key is not kept: %s", error)


async def _release(kept: KeptAnswers, key: RequestKey) -> None:
    try:
        await kept.release(key)
    except StorageError as error:
        log.warning("An Idempotency-Key stays claimed for %s minutes: %s", CLAIM_MINUTES, error)


def _replay(value: dict[str, Any], body: str) -> Response:
    headers = {"Idempotent-Replay": "true"}
    if value["etag"]:
        headers["ETag"] = value["etag"]
    return Response(body, value["status"], headers, "application/json")
