"""``Idempotency-Key``: a POST with the key of an earlier one is answered with the answer to that one, for 24 hours."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from typing import Any, Final
from weakref import WeakValueDictionary

from fastapi import Request, Response
from fastapi.routing import APIRoute
from typing_extensions import override

from threadkeep.gateway.auth import principal_of
from threadkeep.gateway.problems import ProblemError
from threadkeep.ids import digest, short_digest

MINUTES: Final = 24 * 60
KEY_CHARACTERS: Final = 200

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()


class IdempotentRoute(APIRoute):
    """A route that keeps its answers to POST requests with a key among the items of the owner.

    The answer of such a route holds ids and no texts, so that what is forgotten is not kept here.
    """

    @override
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            principal = await principal_of(request) if request.method == "POST" and key is not None else None
            if principal is None or key is None:
                return await handle(request)
            if not 0 < len(key) <= KEY_CHARACTERS:
                detail = f"Idempotency-Key must have 1 to {KEY_CHARACTERS} characters."
                raise ProblemError(422, "input_invalid", detail)
            owner = principal.owner
            store = request.app.state.gateway.tk.for_owner(owner).store
            namespace, place = ("users", owner.label, "gateway", "idempotency"), short_digest(key)
            body = base64.b64encode(await request.body()).decode()
            fingerprint = digest(request.method, request.url.path, body, principal.subject).hex()
            lock = _locks.setdefault((owner.label, place), asyncio.Lock())
            async with lock:
                kept = await store.aget(namespace, place)
                if kept is not None:
                    return _kept_answer(kept.value, fingerprint)
                response = await handle(request)
                value = {
                    "fingerprint": fingerprint,
                    "status": response.status_code,
                    "body": bytes(response.body).decode(),
                    "etag": response.headers.get("etag"),
                }
                await store.aput(namespace, place, value, index=False, ttl=MINUTES)
                return response

        return answer


def _kept_answer(value: dict[str, Any], fingerprint: str) -> Response:
    if value["fingerprint"] != fingerprint:
        detail = "An earlier request with another address or body has this Idempotency-Key; use a new one."
        raise ProblemError(422, "idempotency_key_reused", detail)
    headers = {"Idempotent-Replay": "true"}
    if value["etag"]:
        headers["ETag"] = value["etag"]
    return Response(value["body"], value["status"], headers, "application/json")
