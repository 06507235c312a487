"""``/`` and ``/assets``: the built page, with the headers that keep it to its own code and server."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

    from threadkeep.gateway.app import Gateway

ASSETS: Final = Path(__file__).with_name("assets")
NOT_BUILT: Final = "The web page is not built: run make web in the repository, and start the server again.\n"
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": ", ".join(
        f"{feature}=()"
        for feature in (
            "accelerometer",
            "browsing-topics",
            "camera",
            "display-capture",
            "geolocation",
            "gyroscope",
            "hid",
            "magnetometer",
            "microphone",
            "midi",
            "payment",
            "serial",
            "usb",
        )
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
ASSET_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "public, max-age=31536000, immutable",  # a name has the hash of the content
}
_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))
"""The compressed forms of a file, best first, and the suffix of each."""


def mount(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes to *app*."""
    del gateway
    page = WebPage(ASSETS)
    app.router.routes += [Route("/", page.index), Route("/assets/{name}", page.asset)]


class WebPage:
    """Answers requests for the page. Its files are read once; a name of a request is looked up and never opened.

    Args:
        folder: The built page.
    """

    def __init__(self, folder: Path) -> None:
        files = sorted(folder.rglob("*")) if folder.is_dir() else []
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.is_file()}

    async def index(self, request: Request) -> Response:
        """Return the page, or the sentence that says how to build it."""
        if "index.html" not in self._files:
            return PlainTextResponse(NOT_BUILT, 404)
        return self._file(request, "index.html", PAGE_HEADERS)

    async def asset(self, request: Request) -> Response:
        """Return a file that the page loads."""
        name = f"assets/{request.path_params['name']}"
        if name not in self._files:
            return PlainTextResponse("There is no such file.\n", 404)
        return self._file(request, name, ASSET_HEADERS)

    def _file(self, request: Request, name: str, headers: Mapping[str, str]) -> Response:
        accepted = {word.partition(";")[0].strip() for word in request.headers.get("accept-encoding", "").split(",")}
        kind, _ = mimetypes.guess_type(name)
        headers = {**headers, "Vary": "Accept-Encoding"}
        for encoding, suffix in _ENCODINGS:
            if encoding in accepted and (content := self._files.get(name + suffix)) is not None:
                return Response(content, headers={**headers, "Content-Encoding": encoding}, media_type=kind)
        return Response(self._files[name], headers=headers, media_type=kind)
