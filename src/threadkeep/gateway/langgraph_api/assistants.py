"""``/lg/assistants``: the graph that this gateway serves, as the one assistant there is."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from fastapi import APIRouter
from pydantic import PydanticUserError

from threadkeep.gateway.inputs import User
from threadkeep.gateway.langgraph_api.states import RowsBody, selected
from threadkeep.gateway.public_errors import ProblemError

router = APIRouter(prefix="/assistants")

_NAMESPACE: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""That of LangGraph's server: an assistant has the same id on both."""

_UNNAMED: Final = "LangGraph"
"""The name of a compiled graph without one."""

_CREATED: Final = "1970-01-01T00:00:00+00:00"


class AssistantsBody(RowsBody):
    """Which assistants to list."""

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] | None = None
    sort_by: str | None = None


def graph_metadata(graph: Any) -> dict[str, Any]:
    """Return the name of the graph, which is ``agent`` if it has none, and the id of its assistant."""
    name = str(getattr(graph, "name", "") or _UNNAMED)
    name = "agent" if name == _UNNAMED else name
    return {"graph_id": name, "assistant_id": str(uuid.uuid5(_NAMESPACE, name))}


def require_graph(user: User, named: str) -> Any:
    """Return the graph that an assistant's id or name means; raise ProblemError if there is none."""
    if named not in graph_metadata(user.graph).values():
        raise ProblemError(404, "assistant_not_found", "There is no assistant with this id.")
    return user.graph


@router.post("/search")
async def search(body: AssistantsBody, user: User) -> list[dict[str, Any]]:
    """List the assistant, unless the body asks for another one."""
    assistant = _assistant(user.graph)
    fits = all(wanted in (None, assistant["name"]) for wanted in (body.graph_id, body.name))
    if not fits or body.offset or not (body.metadata or {}).items() <= assistant["metadata"].items():
        return []
    return [selected(assistant, body.select)]


@router.get("/{named}")
async def show(named: str, user: User) -> dict[str, Any]:
    """Return the assistant."""
    return _assistant(require_graph(user, named))


@router.get("/{named}/schemas")
async def schemas(named: str, user: User) -> dict[str, Any]:
    """Return the JSON schemas of the graph; ``null``: it has none."""
    graph = require_graph(user, named)
    output = _schema(graph.get_output_jsonschema)
    return {
        "graph_id": graph_metadata(graph)["graph_id"],
        "input_schema": _schema(graph.get_input_jsonschema),
        "output_schema": output,
        "state_schema": output,
        "config_schema": {},
        "context_schema": _schema(graph.get_context_jsonschema),
    }


@router.get("/{named}/graph")
async def draw(named: str, user: User, *, xray: bool | int = False) -> dict[str, Any]:
    """Return the nodes and edges of the graph; *xray*: those of its subgraphs, too."""
    drawn = require_graph(user, named).get_graph(xray=xray).to_json()
    for node in drawn["nodes"]:
        if "data" in node:
            node["data"] = {"name": node["data"]["name"]}
    return drawn


def _schema(make: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    with suppress(PydanticUserError):  # a type that has no JSON schema
        return make()
    return None


def _assistant(graph: Any) -> dict[str, Any]:
    named = graph_metadata(graph)
    return {
        **named,
        "name": named["graph_id"],
        "description": None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": _CREATED,
        "updated_at": _CREATED,
    }
