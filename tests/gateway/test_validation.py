"""What is invalid in a request is told in plain words: the place, the field and what is wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import ValidationError

from tests.gateway.world import USER, GatewayWorld
from threadkeep.errors import InvalidInputError
from threadkeep.gateway.langgraph_api import assistants, runs, store
from threadkeep.gateway.langgraph_api import threads as graph_threads
from threadkeep.gateway.operations import OPERATIONS, parse_arguments
from threadkeep.gateway.routers import chat, credentials, me, memories, profile, proposals, scopes, threads
from threadkeep.gateway.routers import runs as turns
from threadkeep.gateway.validation import invalid_fields

ROUTED: tuple[Any, ...] = (
    *(chat, credentials, me, memories, profile, proposals, scopes, threads, turns),
    *(assistants, graph_threads, runs, store),
)
WRONG: list[Any] = [7, "x", ["x"], [{"node": 7}], {"node": 7}, [[]]]
PLAIN = re.compile(r"[a-z_0-9.]+ (must|needs|may|is|has)\b.*\.|The body must be an object\.", re.DOTALL)
INTERNAL = re.compile(
    r"Input|union|function-|\[str|literal\[|dict\[|tuple\[|[A-Z]\w*Body\b|[Vv]alidat|ValueError|Value error"
)


def models() -> Iterator[Any]:
    """Yield the model of the body of each route that has one."""
    for module in ROUTED:
        router: APIRouter = module.router
        for route in router.routes:
            if isinstance(route, APIRoute) and route.body_field is not None:
                yield route.body_field.field_info.annotation


def bodies(model: Any) -> Iterator[Any]:
    """Yield bodies of which one field, or a field of one that is an object, has another type."""
    yield from WRONG
    for name, field in model.model_fields.items():
        yield from ({name: wrong} for wrong in WRONG)
        for inner in (field.annotation, *get_args(field.annotation)):
            if hasattr(inner, "model_fields"):
                yield from ({name: body} for body in bodies(inner))


def errors_of(gateway: GatewayWorld, method: str, path: str, body: Any) -> list[tuple[str, str]]:
    """Return the places and messages of a refusal."""
    with httpx.Client(base_url=gateway.origin, headers={USER: "ana", "content-type": "application/json"}) as client:
        response = client.request(method, path, content=json.dumps(body))
    assert response.status_code == 422, response.text
    return [(".".join(one["at"]), one["message"]) for one in response.json()["errors"]]


class TestMessages:
    def test_no_body_of_a_route_shows_what_checks_it(self):
        """Each field of each body gets values of other types."""
        refused: set[tuple[str, ...]] = set()
        for model in models():
            for body in bodies(model):
                try:
                    model.model_validate(body)
                except ValidationError as error:
                    refused |= {(*at, told) for at, told in invalid_fields(error.errors(), body, root="The body")}

        assert len(refused) > 100
        assert [one for one in refused if INTERNAL.search(" ".join(one)) or not PLAIN.fullmatch(one[-1])] == []

    @pytest.mark.parametrize(
        ("path", "body", "told"),
        [
            ("/api/memories", {}, ("body.text", "text is required.")),
            ("/api/memories", {"text": 7}, ("body.text", "text must be a string.")),
            ("/api/memories", {"text": "x", "colour": 1}, ("body.colour", "colour is no field of this request.")),
            (
                "/api/chat/stream",
                {"message": "Hi", "thread_id": ".."},
                ("body.thread_id", "thread_id must not be . or .., which no address can name."),
            ),
            (
                "/lg/threads",
                {"thread_id": "."},
                ("body.thread_id", "thread_id must not be . or .., which no address can name."),
            ),
            ("/api/memories/undo", {"last": 0}, ("body.last", "last must be 1 or more.")),
            ("/api/memories/undo", [], ("body", "The body must be an object.")),
            (
                "/lg/runs/wait",
                {"assistant_id": "agent", "interrupt_before": 7},
                ("body.interrupt_before", "interrupt_before must be '*' or a list."),
            ),
            (
                "/lg/runs/wait",
                {"assistant_id": "agent", "command": {"goto": [7]}},
                ("body.command.goto.0", "command.goto.0 must be an object or a string."),
            ),
            (
                "/lg/runs/wait",
                {"assistant_id": "agent", "command": {"goto": [{"node": 7}]}},
                ("body.command.goto.0.node", "command.goto.0.node must be a string."),
            ),
            (
                "/lg/runs/wait",
                {"assistant_id": "agent", "command": {"update": [["x"]]}},
                ("body.command.update.0.1", "command.update.0.1 is required."),
            ),
        ],
    )
    def test_the_field_and_what_is_wanted(self, gateway: GatewayWorld, path: str, body: Any, told: tuple[str, str]):
        assert errors_of(gateway, "POST", path, body) == [told]

    def test_invalid_field_of_a_form_is_named(self, gateway: GatewayWorld):
        with httpx.Client(base_url=gateway.origin, headers={USER: "ana"}) as client:
            response = client.post(
                "/api/chat/stream_files", data={"message": "Hi", "memory": "x"}, files={"files": b"x"}
            )

        assert response.json()["errors"] == [{"at": ["memory"], "message": "memory must be 'on' or 'off'."}]

    def test_arguments_of_programs(self):
        """Those of MCP and A2A are told of in the same words."""
        arguments = OPERATIONS["search_memory"].arguments

        with pytest.raises(
            InvalidInputError, match=r"^The arguments are invalid: query is required\. limit must be 1 "
        ):
            parse_arguments(arguments, {"limit": 0})
