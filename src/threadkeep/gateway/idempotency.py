"""``Idempotency-Key``: for 24 hours, a POST with the key of an earlier one gets its answer, from any process.

The request that comes first claims the key. Its process renews the claim until there is an answer, however long that
takes, so the request has its effect once. The claim of a process that was killed expires, and the request can be sent
again.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from typing_extensions import override

from threadkeep.concurrency import LEAST_WAIT, AnswerTimeout
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.auth import admit
from threadkeep.gateway.owner_items import OwnerItems
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.ids import digest
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.principals import Principal
    from threadkeep.identity import Owner

MINUTES: Final = 24 * 60
KEY_CHARACTERS: Final = 200
CLAIM_MINUTES: Final = 1.0
"""How long a claim lasts without renewal."""

RENEW_SECONDS: Final = 15.0

STORAGE_SECONDS: Final = 2.0
"""How long a request asks the storage to write what it need not have; queues of this process do not count."""

WAIT_SECONDS: Final = 10.0
"""How long a repeated request waits for the answer to the first one."""

_POLL_SECONDS: Final = 0.05

T = TypeVar("T")
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
    url = request.url
    return RequestKey(key, digest(request.method, url.path, url.query, principal.subject, *parts).hex())


async def body_key(request: Request, principal: Principal) -> RequestKey | None:
    """Return the key of a request that is told from others by its body; see :func:`request_key`."""
    if "idempotency-key" not in request.headers:
        return None
    return request_key(request, principal, base64.b64encode(await request.body()).decode())


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
        self._items = OwnerItems(tk.for_owner(owner), "idempotency")
        self._budget = tk.app.timeout_budget

    async def within_budget(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of *work*, which a turn need not have; *work* runs to its end if the turn stops waiting.

        Raises:
            TimeoutError: The storage takes too long.
        """
        return await self._budget.wait(work, timeout=timedelta(seconds=STORAGE_SECONDS), least=LEAST_WAIT)

    async def find(self, key: RequestKey) -> dict[str, Any] | None:
        """Return what is kept under a key, or None.

        Raises:
            ProblemError: Another request has the key.
        """
        value = await self._items.get(key.key)
        if value is not None:
            require_same(value, key)
        return value

    async def claim(self, key: RequestKey, value: dict[str, Any]) -> KeyClaim | None:
        """Keep *value* under a key that nothing is kept under; ``None``: another request has the key."""
        value = {"fingerprint": key.fingerprint, **value}
        is_new = await self._items.put_new(key.key, value, minutes=CLAIM_MINUTES)
        return KeyClaim(self, self._items, key, value) if is_new else None


class KeyClaim:
    """A claimed key: renewed until :meth:`keep` or :meth:`release`. If the storage fails, the log says so.

    Args:
        answers: What it is one of.
        items: Where it is kept.
        key: The key.
        value: What is kept under it.
    """

    def __init__(self, answers: KeptAnswers, items: OwnerItems, key: RequestKey, value: dict[str, Any]) -> None:
        self._answers = answers
        self._items = items
        self._key = key.key
        self._value = value
        self._renewing = asyncio.create_task(self._renew())

    async def keep(self, **answer: Any) -> None:
        """Keep the answer; if that fails, the request had its effect all the same."""
        value = {**self._value, **answer}
        await self._end(self._items.put(self._key, value, minutes=MINUTES), "The answer is not kept")

    async def release(self) -> None:
        """Free the key of a request that was refused, or failed."""
        await self._end(self._items.delete(self._key), "The key stays claimed")

    def stop(self) -> None:
        """Renew the claim no longer."""
        self._renewing.cancel()

    async def _end(self, write: Coroutine[Any, Any, object], failure: str) -> None:
        self.stop()
        await asyncio.gather(self._renewing, return_exceptions=True)  # it may be writing
        await try_write(self._answers.within_budget(write), f"{failure}, of a request with an Idempotency-Key")

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            put = self._items.put(self._key, self._value, minutes=CLAIM_MINUTES)
            await try_write(put, "The claim of a request with an Idempotency-Key was not renewed")


async def try_write(write: Awaitable[object], failure: str) -> None:
    """Await what need not be written; if it fails, or takes :data:`STORAGE_SECONDS`, the log says *failure* and why."""
    try:
        async with AnswerTimeout(STORAGE_SECONDS):
            await write
    except (ThreadkeepError, TimeoutError) as error:
        log.warning("%s: %s", failure, str(error) or "it took too long")


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
            key = await body_key(request, principal)
            if key is None:
                return await handle(request)
            tk = request.app.state.gateway.tk
            kept = KeptAnswers(tk, principal.owner)
            claimed = await _claim_or_find(kept, key)
            if not isinstance(claimed, KeyClaim):
                return _replay(claimed, await self.restored_body(claimed["body"], tk.for_owner(principal.owner)))
            try:
                response = await handle(request)
                value = {
                    "status": response.status_code,
                    "body": await self.kept_body(bytes(response.body).decode()),
                    "etag": response.headers.get("etag"),
                }
            except BaseException:
                await claimed.release()
                raise
            await claimed.keep(**value)
            return response

        return answer


async def _claim_or_find(kept: KeptAnswers, key: RequestKey) -> KeyClaim | dict[str, Any]:
    """Claim the key, or return the answer to the request that has claimed it.

    Raises:
        ProblemError: That request is not answered yet, or asks for something else.
    """
    for _ in range(int(WAIT_SECONDS / _POLL_SECONDS)):
        earlier = await kept.find(key)
        if earlier is None and (claim := await kept.claim(key, {})) is not None:
            return claim
        if earlier is not None and "body" in earlier:
            return earlier
        await asyncio.sleep(_POLL_SECONDS)
    detail = "An earlier request with this Idempotency-Key is in progress; try again in a moment."
    raise ProblemError(409, "request_in_progress", detail, retry_after=1)


def _replay(value: dict[str, Any], body: str) -> Response:
    headers = {"Idempotent-Replay": "true"}
    if value["etag"]:
        headers["ETag"] = value["etag"]
    return Response(body, value["status"], headers, "application/json")
