"""The events of a run as LangGraph's server sends them: one for each part of a stream, named by mode and namespace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from langchain_core.messages import BaseMessageChunk, message_chunk_to_message
from typing_extensions import override

from threadkeep.gateway.bodies import as_object
from threadkeep.gateway.events import Event, TurnEvents, interrupts_body
from threadkeep.gateway.run_models import describe_error

_CONFIG_KEYS: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
STATUSES: Final = {"done": "success", "idle": "success", "interrupted": "success", "cancelled": "interrupted"}
"""The status of a run by what it is here, or by that of its thread after it, where it has another name."""

_BOOKKEEPING: Final = frozenset({"values", "updates", "custom"})
"""The modes that say how the run stands, whatever the client reads."""


@dataclass(kw_only=True)
class GraphEvents(TurnEvents):
    """Translates what a graph streams for a client of LangGraph's API.

    Attributes:
        modes: What the client reads.
        subgraphs: Whether it reads what subgraphs stream, too.
        values: The newest state of the run; ``None``: there is none yet.
        asked: The questions of the graph.
        partial: The messages so far, by their ids.
    """

    modes: frozenset[str]
    subgraphs: bool
    values: Any = None
    asked: list[Any] = field(default_factory=list[Any])
    partial: dict[str | None, Any] = field(default_factory=dict[str | None, Any])
    tells_learning: ClassVar[bool] = False

    @property
    @override
    def stream(self) -> dict[str, Any]:
        modes = {mode.partition("-")[0] for mode in self.modes} | _BOOKKEEPING
        return {"stream_mode": sorted(modes), "subgraphs": self.subgraphs}

    @override
    def begin(self, run_id: str, thread_id: str) -> Event:
        return "metadata", {"run_id": run_id, "attempt": 1}

    @override
    def end(self, run_id: str, thread_id: str, status: str, failure: dict[str, str] | None) -> Event:
        if failure is not None:
            return "error", {"error": failure["code"], "message": failure["message"]}
        return "end", {"run_id": run_id, "status": STATUSES.get(status, status)}

    @override
    def translate(self, part: Any) -> Iterator[Event]:
        namespace, mode, payload = part if self.subgraphs else ((), *part)
        if not namespace and mode == "values":
            self.values = payload
        elif not namespace and mode == "updates":
            self.asked += payload.get("__interrupt__", ())
            self.interrupts = interrupts_body(self.asked)
        elif not namespace and mode == "custom":
            deque(self._custom(as_object(payload)), maxlen=0)  # notes it
        if mode == "messages":
            self.replying = True
            yield from self._message("|".join(("", *namespace)), *payload)
        elif mode in self.modes:
            yield "|".join((mode, *namespace)), _public(mode, payload)

    def _message(self, namespace: str, message: Any, metadata: dict[str, Any]) -> Iterator[Event]:
        """Yield a message with its metadata, or as clients of ``messages`` read it: whole so far, and by its id."""
        if "messages-tuple" in self.modes:
            yield f"messages{namespace}", [message, metadata]
            return
        if message.id not in self.partial:
            yield f"messages/metadata{namespace}", {message.id: {"metadata": metadata}}
        before, is_chunk = self.partial.get(message.id), isinstance(message, BaseMessageChunk)
        whole = self.partial[message.id] = before + message if is_chunk and before is not None else message
        kind, shown = ("partial", message_chunk_to_message(whole)) if is_chunk else ("complete", whole)
        yield f"messages/{kind}{namespace}", [shown]


def error_body(error: Exception) -> dict[str, str]:
    """Return what clients are told of the error of a run."""
    described = describe_error(error)
    return {"error": described["code"], "message": described["message"]}


def _public(mode: str, payload: Any) -> Any:
    """Return what clients read of a part; of configs and metadata, what the server puts there is left out."""
    if mode == "debug" and payload["type"] == "checkpoint":
        inner = _public("checkpoints", payload["payload"])
        for name, config in (("checkpoint", inner["config"]), ("parent_checkpoint", inner["parent_config"])):
            inner[name] = as_object(config).get("configurable")
        for task in inner["tasks"]:
            if task["state"]:  # the config that names the checkpoint of a subgraph
                task["checkpoint"] = task.pop("state")["configurable"]
        return {**payload, "payload": inner}
    if mode == "checkpoints":
        tasks = [{**task, "state": _public_config(task.get("state"))} for task in payload["tasks"]]
        configs = {key: _public_config(payload[key]) for key in ("config", "parent_config")}
        return {**payload, **configs, "tasks": tasks, "metadata": public_metadata(payload["metadata"])}
    return payload


def _public_config(config: Any) -> Any:
    if not config:
        return None
    keys = config["configurable"]
    return {"configurable": {key: keys[key] for key in _CONFIG_KEYS if key in keys}}


def public_metadata(metadata: Any) -> Any:
    """Return the metadata of a checkpoint without what the server keeps in it."""
    return metadata and {key: value for key, value in metadata.items() if not key.startswith(("threadkeep_", "__"))}
