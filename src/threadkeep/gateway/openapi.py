"""The OpenAPI document: every status that a route may answer with, its problem document, and how to authenticate."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.gateway.auth.sessions import COOKIE, CSRF_HEADER
from threadkeep.gateway.problems import PROBLEM, PROBLEM_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

_ALWAYS: Final = (400, 422, 500)
_API: Final = (401, 403, 413, 429, 503, 507)
_AUTH: Final = (401, 403, 404, 413, 503)
_EVERY: Final = (400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 429, 500, 503, 507)
_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
_RETRY: Final = (429, 503)
_SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"session": [], "csrf": []}]
_ADMIN_SECURITY: Final[list[dict[str, list[str]]]] = [{"adminToken": []}]
_RATE_LIMIT: Final = {
    "RateLimit": {
        "description": "How many requests the owner has left, and the seconds until there is one more.",
        "schema": {"type": "string", "maxLength": 100, "pattern": r'^"requests";r=\d+;t=\d+$'},
    }
}
_BOUNDS: Final[dict[str, dict[str, Any]]] = {
    "string": {"maxLength": 2**31 - 1},
    "array": {"maxItems": 2**31 - 1},
    "integer": {"format": "int64", "minimum": 0, "maximum": 2**53 - 1},
}
"""The limits of what an answer holds, where a route names none."""


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Return what makes the OpenAPI document of *app*, once."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        return app.openapi_schema or {}

    return openapi


def _complete(schema: dict[str, Any]) -> None:
    components = schema.setdefault("components", {})
    for replaced in ("HTTPValidationError", "ValidationError"):  # a problem document takes their place
        components["schemas"].pop(replaced, None)
    components["schemas"]["Problem"] = PROBLEM
    token = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    components["securitySchemes"] = {
        "token": {**token, "description": "A token, verified as RFC8725 says, or an API key."},
        "adminToken": {**token, "description": "A token, verified as RFC8725 says, with the scope admin."},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
        "csrf": {"type": "apiKey", "in": "header", "name": CSRF_HEADER},
    }
    components["responses"] = {f"Problem{status}": _problem(status) for status in _EVERY}
    for path, operations in schema["paths"].items():
        for method in operations.keys() & _METHODS:
            _complete_operation(path, method, operations[method])
    _bound(schema)


def _complete_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        _drop_null(parameter["schema"])
    if path.startswith("/api/"):
        operation["security"] = _ADMIN_SECURITY if path.startswith("/api/admin/") else _SECURITY
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                response.setdefault("headers", {}).update(_RATE_LIMIT)
    elif path == "/auth/logout":
        operation["security"] = _SECURITY[1:]
    for status in _statuses(path, method, operation):
        if status == HTTPStatus.UNPROCESSABLE_ENTITY or str(status) not in operation["responses"]:
            operation["responses"][str(status)] = {"$ref": f"#/components/responses/Problem{status}"}


def _drop_null(schema: dict[str, Any]) -> None:
    """Leave out that a parameter may be null: it is absent, or has the other type."""
    if len(others := [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]) == 1:
        del schema["anyOf"]
        schema.update(others[0])


def _statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    yield from _ALWAYS
    if path.startswith("/auth/"):
        yield from _AUTH
    if not path.startswith("/api/"):
        return
    yield from _API
    if "{" in path:
        yield 404
    if method != "get":
        yield 409
    if any(one["in"] == "header" and one["name"].lower() == "if-match" for one in operation.get("parameters", ())):
        yield from (412, 428)
    if path.endswith("_files"):
        yield 415


def _bound(part: Any) -> None:
    """Complete the limits of every schema below *part*."""
    if isinstance(part, dict):
        schema = cast("dict[str, Any]", part)
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _BOUNDS and not schema.keys() & {"enum", "const"}:
            for name, value in _BOUNDS[kind].items():
                schema.setdefault(name, value)
        for value in schema.values():
            _bound(value)
    elif isinstance(part, list):
        for value in cast("list[Any]", part):
            _bound(value)


def _problem(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status == HTTPStatus.BAD_REQUEST:  # what is no HTTP is refused by the server below the application
        response["content"]["text/plain"] = {"schema": {"type": "string", "maxLength": 1_000}}
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        response["headers"] = {**_RATE_LIMIT}
    if status in _RETRY:
        seconds = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 3600}
        after = {"description": "When to try again, in seconds.", "schema": seconds}
        response["headers"] = {**response.get("headers", {}), "Retry-After": after}
    return response
