"""Requests to addresses that clients name: HTTPS to public addresses, and nothing else.

The address that was checked is the one that is connected to, so a name that resolves to another address a moment later
reaches nothing inside.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING, Final

import httpx
from typing_extensions import override

from threadkeep.observability import log

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 3.0
"""How long a request may take, from the name to the answer."""

_MAX_PORT: Final = 65_535
MAX_BYTES: Final = 256 * 1024
"""How much is sent; of the answer, only the status is read."""


def is_public(address: str) -> bool:
    """Return whether *address* is one that anybody can reach, and no address of this network."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    found = found if mapped is None else mapped
    return found.is_global and not (found.is_multicast or found.is_reserved)


async def public_address(url: httpx.URL, allowed: Callable[[str], bool] = is_public) -> str:
    """Return an address of the host of *url*; each of its addresses must be allowed.

    Raises:
        httpx.ConnectError: The URL is not HTTPS, or an address of its host is not allowed, or there is none.
    """
    if url.scheme != "https" or not url.host or url.userinfo or (url.port or 443) > _MAX_PORT:
        msg = "Only https:// addresses with a host and without a user are called."
        raise httpx.ConnectError(msg)
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(url.host, url.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        msg = "The host has no address."
        raise httpx.ConnectError(msg) from error
    addresses = [str(info[4][0]) for info in infos]
    if not addresses or not all(map(allowed, addresses)):
        msg = "The host is not public."
        raise httpx.ConnectError(msg)
    return addresses[0]


async def is_public_url(url: str) -> bool:
    """Return whether *url* is HTTPS and its host public."""
    try:
        async with asyncio.timeout(SECONDS):
            await public_address(httpx.URL(url))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError):
        return False
    return True


class PublicTransport(httpx.AsyncBaseTransport):
    """Sends requests to public addresses; it follows no redirect, and reads no body of an answer.

    Args:
        inner: Connects; ``None``: with the certificates of the system.
        allowed: Which addresses are called.
    """

    def __init__(
        self, inner: httpx.AsyncBaseTransport | None = None, *, allowed: Callable[[str], bool] = is_public
    ) -> None:
        self._inner = inner
        self._allowed = allowed

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._send(request)
        except httpx.HTTPError as error:
            log.warning("A notification was not delivered: %s", error or type(error).__name__)
            raise

    async def _send(self, request: httpx.Request) -> httpx.Response:
        if len(await request.aread()) > MAX_BYTES:
            msg = f"The body has more than {MAX_BYTES:,} bytes."
            raise httpx.WriteError(msg)
        try:
            async with asyncio.timeout(SECONDS):
                address = await public_address(request.url, self._allowed)
                extensions = {**request.extensions, "sni_hostname": request.url.host}
                sent = httpx.Request(
                    request.method,
                    request.url.copy_with(host=address),
                    headers=request.headers,  # with the Host of the name
                    content=request.content,
                    extensions=extensions,
                )
                self._inner = (
                    self._inner or httpx.AsyncHTTPTransport()
                )  # reads certificates, so not before it is needed
                response = await self._inner.handle_async_request(sent)
                await response.aclose()
        except TimeoutError as error:
            msg = f"The address did not answer within {SECONDS:g} seconds."
            raise httpx.ConnectTimeout(msg) from error
        return httpx.Response(response.status_code, request=request)

    @override
    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()
