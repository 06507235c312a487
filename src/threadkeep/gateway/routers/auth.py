"""``/auth``: log a browser in and out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel

from threadkeep.errors import OwnerRequiredError
from threadkeep.gateway.auth.sessions import COOKIE, LIFETIME, LOGIN_COOKIE, LOGIN_MINUTES, Sessions
from threadkeep.gateway.bodies import Shown
from threadkeep.gateway.public_errors import ProblemError

router = APIRouter(prefix="/auth", tags=["auth"])


class SessionBody(BaseModel):
    """The session of the browser.

    Attributes:
        user_id: The user.
        scopes: What it may do.
        csrf_token: What requests that change something send in the header X-CSRF-Token.
        expires_at: When it ends if it is not used.
    """

    user_id: Shown
    scopes: list[str]
    csrf_token: str
    expires_at: datetime


class LoggedOutBody(BaseModel):
    """The session has ended.

    Attributes:
        logout_url: Where the user logs out of the issuer, too.
    """

    logout_url: str | None


@router.get("/login", response_class=RedirectResponse, status_code=303)
async def login(
    request: Request, return_to: Annotated[str, Query(min_length=1, max_length=2_000)] = "/"
) -> RedirectResponse:
    """Send the browser to the issuer; it returns to *return_to*, a path of this server."""
    address, browser = await _sessions(request).begin_login(return_to)
    response = RedirectResponse(address, 303)
    _set_cookie(response, LOGIN_COOKIE, browser, LOGIN_MINUTES * 60)
    return response


@router.get("/callback", response_class=RedirectResponse, status_code=303)
async def finish_login(
    request: Request,
    code: Annotated[str, Query(max_length=4_000)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
) -> RedirectResponse:
    """Begin a session with what the issuer sent."""
    cookies = request.cookies
    secret, return_to = await _sessions(request).finish_login(
        code, state, browser=cookies.get(LOGIN_COOKIE, ""), earlier=cookies.get(COOKIE, "")
    )
    response = RedirectResponse(return_to, 303)
    _set_cookie(response, COOKIE, secret, int(LIFETIME.total_seconds()))
    _set_cookie(response, LOGIN_COOKIE, "", 0)
    return response


@router.get("/session", responses={204: {"description": "This server has no browser sessions."}})
async def show_session(request: Request) -> SessionBody:
    """Return the session of the browser."""
    if request.app.state.gateway.sessions is None:
        return Response(status_code=204)  # pyright: ignore[reportReturnType] - sent as it is
    session = await _sessions(request).find(request.cookies.get(COOKIE, ""))
    if session is None:
        msg = "Authentication is required."
        raise OwnerRequiredError(msg)
    return SessionBody(
        user_id=session.owner.user_id,
        scopes=sorted(session.scopes),
        csrf_token=session.csrf_token,
        expires_at=session.expires_at,
    )


@router.post("/logout")
async def logout(request: Request, response: Response) -> LoggedOutBody:
    """End the session of the browser; the request needs the CSRF token."""
    sessions = _sessions(request)
    if await sessions.principal(request) is None:
        msg = "Authentication is required."
        raise OwnerRequiredError(msg)
    await sessions.end(request.cookies[COOKIE])
    _set_cookie(response, COOKIE, "", 0)
    return LoggedOutBody(logout_url=await sessions.logout_url())


@router.post("/backchannel_logout")
async def end_sessions(request: Request, logout_token: Annotated[str, Form(max_length=20_000)]) -> Response:
    """End sessions because the issuer says so."""
    await _sessions(request).end_by_issuer(logout_token)
    return Response(status_code=200)


def _sessions(request: Request) -> Sessions:
    sessions: Sessions | None = request.app.state.gateway.sessions
    if sessions is None:
        raise ProblemError(404, "not_found", "This server has no browser sessions.")
    return sessions


def _set_cookie(response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
