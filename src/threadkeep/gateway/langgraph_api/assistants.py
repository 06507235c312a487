"""``/lg/assistants``: the graph that this gateway serves, as the one assistant there is; and ``/ok``, ``/info``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import PydanticUserError

import threadkeep
from threadkeep.gateway.langgraph_api.bodies import AssistantsBody
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.routers.chat import Chatting

router = APIRouter()

_NAMESPACE: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""That of LangGraph's server: an assistant has the same id on both."""

_UNNAMED: Final = "LangGraph"
"""The name of a compiled graph without one."""

_CREATED: Final = "1970-01-01T00:00:00+00:00"


def graph_name(graph: Any) -> str:
    """Return the name of the graph; of one without a name, ``agent``."""
    name = str(getattr(graph, "name", "") or _UNNAMED)
    return "agent" if name == _UNNAMED else name


def assistant_id(graph: Any) -> str:
    """Return the id of the assistant of a graph."""
    return str(uuid.uuid5(_NAMESPACE, graph_name(graph)))


def require_graph(request: Request, named: str) -> Any:
    """Return the graph that an assistant's id or name means.

    Raises:
        ProblemError: There is none.
    """
    graph = request.app.state.gateway.graph
    if named not in (graph_name(graph), assistant_id(graph)):
        raise ProblemError(404, "assistant_not_found", "There is no assistant with this id.")
    return graph


def graph_metadata(graph: Any) -> dict[str, Any]:
    """Return what the metadata of every thread says of the graph."""
    return {"graph_id": graph_name(graph), "assistant_id": assistant_id(graph)}


@router.get("/ok")
async def ok() -> dict[str, bool]:
    """Answer that the process serves."""
    return {"ok": True}


@router.get("/info")
async def info() -> dict[str, Any]:
    """Tell what there is of LangGraph's API."""
    return {"version": threadkeep.__version__, "flags": {"assistants": True, "crons": False, "langsmith": False}}


@router.post("/assistants/search")
async def search(body: AssistantsBody, request: Request, principal: Chatting) -> list[dict[str, Any]]:
    """List the assistant, unless the body asks for another one."""
    del principal
    graph = request.app.state.gateway.graph
    assistant = _assistant(graph)
    wanted = {"graph_id": body.graph_id, "name": body.name}
    fits = all(value in (None, assistant[key]) for key, value in wanted.items())
    if not fits or body.offset or not (body.metadata or {}).items() <= assistant["metadata"].items():
        return []
    return [{key: value for key, value in assistant.items() if body.select is None or key in body.select}]


@router.get("/assistants/{named}")
async def show(named: str, request: Request, principal: Chatting) -> dict[str, Any]:
    """Return the assistant."""
    del principal
    return _assistant(require_graph(request, named))


@router.get("/assistants/{named}/schemas")
async def schemas(named: str, request: Request, principal: Chatting) -> dict[str, Any]:
    """Return the JSON schemas of the graph; ``null``: it has none."""
    del principal
    graph = require_graph(request, named)
    output = _schema(graph.get_output_jsonschema)
    return {
        "graph_id": graph_name(graph),
        "input_schema": _schema(graph.get_input_jsonschema),
        "output_schema": output,
        "state_schema": output,
        "config_schema": {},
        "context_schema": _schema(graph.get_context_jsonschema),
    }


@router.get("/assistants/{named}/graph")
async def draw(named: str, request: Request, principal: Chatting, *, xray: bool | int = False) -> dict[str, Any]:
    """Return the nodes and edges of the graph; *xray*: those of its subgraphs, too."""
    del principal
    drawn = require_graph(request, named).get_graph(xray=xray).to_json()
    for node in drawn["nodes"]:
        if "data" in node:
            node["data"] = {"name": node["data"]["name"]}
    return drawn


def _schema(make: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    try:
        return make()
    except PydanticUserError:  # a type that has no JSON schema
        return None


def _assistant(graph: Any) -> dict[str, Any]:
    return {
        "assistant_id": assistant_id(graph),
        "graph_id": graph_name(graph),
        "name": graph_name(graph),
        "description": None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": _CREATED,
        "updated_at": _CREATED,
    }
