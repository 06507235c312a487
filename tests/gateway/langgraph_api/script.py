"""One script of calls through LangGraph's SDK, and the shapes of what comes back: run against two servers."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable
from typing import Any, Final, cast

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

ALL_MODES: Final = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"]
NOWHERE: Final = "1f0d0000-0000-4000-8000-000000000000"

FREE: Final = frozenset({"metadata", "kwargs", "config_schema", "state_schema", "input_schema", "output_schema"})
"""Keys with contents of the server's or the graph's own choice."""

CONFIG: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
MESSAGE: Final = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns", "run_id", "thread_id")
"""What clients read of the metadata of a message."""

LEFT_OUT: Final = frozenset({"langsmith_session_name", "services", "attempt"})
"""Keys of LangGraph's server that concern its own operation."""

_TASK: Final = re.compile(r":[0-9a-f-]{36}")


def say(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def shape_of(value: Any, key: str = "") -> Any:
    """Return a value with types in place of texts and numbers, and one element in place of each list."""
    if key in FREE:
        return "free"
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if key in ("interrupts", "checkpoint_map") or any(name.startswith("lc_run") for name in fields):  # by ids
            return {"id": shape_of([*fields.values()])} if fields else {}
        chosen = CONFIG if key == "configurable" else MESSAGE if "langgraph_node" in fields else [*fields]
        kept = sorted({*chosen} & fields.keys() - LEFT_OUT)
        return {name: shape_of(fields[name], name) for name in kept}
    if isinstance(value, list):
        return [shape_of(part) for part in cast("list[Any]", value)[-1:]]
    return "null" if value is None else type(value).__name__


class Script:
    """Makes the calls, and notes the shape of each answer and stream under a name.

    Args:
        client: LangGraph's SDK.

    Attributes:
        shapes: What came back.
        values: The last answer of each call.
    """

    def __init__(self, client: LangGraphClient) -> None:
        self.client: Any = client
        self.shapes: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.thread_id = ""
        self.topic = {"topic": uuid.uuid4().hex}

    async def call(self, name: str, answer: Awaitable[Any]) -> Any:
        """Note what a call answers, or the status that it is refused with."""
        try:
            value = await answer
        except APIStatusError as error:
            self.shapes[name] = {"refused": error.status_code}
            return None
        self.shapes[name] = shape_of(value)
        self.values[name] = value
        return value

    async def stream(self, name: str, *, thread: str | None = "", **options: Any) -> list[Any]:
        """Note the events of a run; ``end`` is left out, as not every version of the server sends it."""
        created: list[Any] = []
        thread_id = self.thread_id if thread == "" else thread
        parts = [
            part async for part in self.client.runs.stream(thread_id, "agent", on_run_created=created.append, **options)
        ]
        events = [part for part in parts if part.event != "end"]
        self.shapes[name] = [[_TASK.sub(":task", part.event), shape_of(part.data)] for part in events]
        assert events[0].event == "metadata"
        assert created[0]["run_id"] == events[0].data["run_id"]
        self.values[name] = parts
        return parts

    async def begun(self, text: str, **options: Any) -> str:
        """Begin a run that hangs, and return its id once it has begun."""
        run = await self.client.runs.create(
            self.thread_id, "agent", input=say(text), stream_mode=["values", "custom"], **options
        )
        async for part in self.client.runs.join_stream(self.thread_id, run["run_id"]):
            if part.event == "custom":
                break
        return run["run_id"]

    async def run(self) -> None:
        """Make all calls."""
        for part in (self.assistants, self.threads, self.streams, self.interrupts, self.states, self.failures):
            await part()
        for part in (self.runs, self.strategies, self.stateless, self.store, self.deletion):
            await part()

    async def assistants(self) -> None:
        assistants = self.client.assistants
        (found,) = await self.call("assistants.search", assistants.search())
        named = found["assistant_id"]
        await self.call("assistants.get", assistants.get(named))
        await self.call("assistants.get_schemas", assistants.get_schemas(named))
        await self.call("assistants.get_graph", assistants.get_graph(named))
        await self.call("assistants.get_graph xray", assistants.get_graph("agent", xray=True))
        await self.call("assistants.get unknown", assistants.get(NOWHERE))

    async def threads(self) -> None:
        threads = self.client.threads
        created = await self.call("threads.create", threads.create(metadata=self.topic))
        self.thread_id = created["thread_id"]
        await self.call("threads.create again", threads.create(thread_id=self.thread_id))
        again = threads.create(thread_id=self.thread_id, if_exists="do_nothing")
        assert (await self.call("threads.create if_exists", again))["thread_id"] == self.thread_id
        changed = await self.call("threads.update", threads.update(self.thread_id, metadata={"more": 1}))
        assert changed["metadata"].items() >= {**self.topic, "more": 1}.items()
        await self.call("threads.get", threads.get(self.thread_id))
        await self.call("threads.get unknown", threads.get(NOWHERE))
        await self.call("threads.get_state empty", threads.get_state(self.thread_id))
        assert await self.call("threads.count", threads.count(metadata=self.topic)) == 1
        assert await self.call("threads.count none", threads.count(metadata={"topic": "fish"})) == 0

    async def streams(self) -> None:
        await self.stream("values", input=say("hello there"))
        await self.stream("updates", input=say("hello there"), stream_mode="updates")
        await self.stream("messages", input=say("hello there"), stream_mode="messages")
        await self.stream("messages-tuple", input=say("hello there"), stream_mode="messages-tuple")
        await self.stream("custom", input=say("hello there"), stream_mode="custom")
        await self.stream("all modes", input=say("hello there"), stream_mode=ALL_MODES)
        await self.stream("all, subgraphs", input=say("hello there"), stream_mode=ALL_MODES, stream_subgraphs=True)
        await self.stream("stopped before", input=say("hello"), interrupt_before=["child"], stream_mode="updates")
        await self.call("threads.get_state stopped", self.client.threads.get_state(self.thread_id))
        await self.stream("continued", stream_mode="updates")

    async def interrupts(self) -> None:
        threads = self.client.threads
        await self.stream("interrupt", input=say("ask me"), stream_mode=["values", "updates"])
        state = await self.call("threads.get_state interrupted", threads.get_state(self.thread_id))
        assert state["tasks"][0]["interrupts"][0]["value"] == {"question": "Which color?"}
        await self.call("threads.get interrupted", threads.get(self.thread_id))
        (found,) = await self.call(
            "threads.search interrupted", threads.search(status="interrupted", metadata=self.topic)
        )
        assert found["thread_id"] == self.thread_id
        await self.stream("resume", command={"resume": "blue"}, stream_mode="updates")
        answer = self.client.runs.wait(self.thread_id, "agent", input=say("ask me again"))
        asked = await self.call("runs.wait interrupted", answer)
        named = {asked["__interrupt__"][0]["id"]: "green"}
        await self.stream("resume by id", command={"resume": named}, stream_mode="updates")
        update = {"update": {"note": "x"}, "goto": "child"}
        await self.stream("command", command=update, stream_mode="updates")

    async def states(self) -> None:
        threads, thread_id = self.client.threads, self.thread_id
        await self.call("threads.get_state", threads.get_state(thread_id))
        await self.call("threads.get_state subgraphs", threads.get_state(thread_id, subgraphs=True))
        history = await self.call("threads.get_history", threads.get_history(thread_id, limit=3))
        checkpoint = history[1]["checkpoint"]
        at = await self.call("state at id", threads.get_state(thread_id, checkpoint_id=checkpoint["checkpoint_id"]))
        assert at["checkpoint"]["checkpoint_id"] == checkpoint["checkpoint_id"]
        await self.call("state at checkpoint", threads.get_state(thread_id, checkpoint=checkpoint))
        await self.call("threads.update_state", threads.update_state(thread_id, {"note": "mine"}, as_node="child"))
        assert (await threads.get_state(thread_id))["values"]["note"] == "mine"
        earlier = (await threads.get_history(thread_id, limit=50))[-2]["checkpoint"]
        await self.stream("from a checkpoint", input=say("other"), checkpoint=earlier, stream_mode="values")
        copied = await self.call("threads.copy", threads.copy(thread_id))
        state = await threads.get_state((copied or await threads.search())["thread_id"])
        assert state["values"]["messages"]

    async def failures(self) -> None:
        await self.stream("failure", input=say("fail"))
        await self.call("threads.get failed", self.client.threads.get(self.thread_id))
        await self.call("threads.get_state failed", self.client.threads.get_state(self.thread_id))
        wait = self.client.runs.wait(self.thread_id, "agent", input=say("fail"), raise_error=False)
        await self.call("runs.wait failed", wait)
        await self.call("runs.create unknown", self.client.runs.create(NOWHERE, "agent", input=say("x")))
        await self.call("runs.create no agent", self.client.runs.create(self.thread_id, NOWHERE, input=say("x")))
        await self.call("runs.get unknown", self.client.runs.get(self.thread_id, NOWHERE))

    async def runs(self) -> None:
        runs, thread_id = self.client.runs, self.thread_id
        await self.call("runs.wait", runs.wait(thread_id, "agent", input=say("waited for")))
        run = await self.call("runs.create", runs.create(thread_id, "agent", input=say("hello"), stream_resumable=True))
        await self.call("runs.join", runs.join(thread_id, run["run_id"]))
        assert (await self.call("runs.get", runs.get(thread_id, run["run_id"])))["status"] == "success"
        await self.call("runs.list", runs.list(thread_id, limit=2))
        hung = await self.begun("hang")
        assert (await self.client.threads.get(thread_id))["status"] == "busy"
        await self.call("runs.cancel", runs.cancel(thread_id, hung, wait=True))
        assert (await self.call("runs.get cancelled", runs.get(thread_id, hung)))["status"] == "interrupted"

    async def strategies(self) -> None:
        runs, thread_id = self.client.runs, self.thread_id
        hung = await self.begun("hang")
        await self.call("reject", runs.create(thread_id, "agent", input=say("x"), multitask_strategy="reject"))
        await self.stream("interrupt strategy", input=say("x"), multitask_strategy="interrupt", stream_mode="updates")
        assert (await self.call("interrupted run", runs.get(thread_id, hung)))["status"] == "interrupted"
        texts = [one["content"] for one in (await self.client.threads.get_state(thread_id))["values"]["messages"]]
        assert texts[-3:] == ["hang", "x", "you said x"]
        hung = await self.begun("hang twice")
        await self.stream("rollback strategy", input=say("y"), multitask_strategy="rollback", stream_mode="updates")
        await self.call("rolled back run", runs.get(thread_id, hung))
        texts = [one["content"] for one in (await self.client.threads.get_state(thread_id))["values"]["messages"]]
        assert texts[-3:] == ["you said x", "y", "you said y"]
        hung = await self.begun("hang")
        queued = await runs.create(thread_id, "agent", input=say("z"))
        assert (await self.call("queued run", runs.get(thread_id, queued["run_id"])))["status"] == "pending"
        await runs.cancel(thread_id, hung, wait=True)
        values = await self.call("enqueued", runs.join(thread_id, queued["run_id"]))
        assert values["messages"][-1]["content"] == "you said z"

    async def stateless(self) -> None:
        runs = self.client.runs
        await self.stream("stateless", thread=None, input=say("once"))
        await self.call("stateless wait", runs.wait(None, "agent", input=say("once")))
        await self.stream("if_not_exists", thread=NOWHERE, input=say("new"), if_not_exists="create")
        await self.client.threads.delete(NOWHERE)

    async def store(self) -> None:
        store, namespace = self.client.store, ["users", "me", "prefs"]
        await self.call("store.put_item", store.put_item(namespace, "color", {"color": "blue"}))
        item = await self.call("store.get_item", store.get_item(namespace, "color"))
        assert (item["namespace"], item["value"]) == (namespace, {"color": "blue"})
        await self.call("store.get_item none", store.get_item(namespace, "size"))
        await self.call("store.search_items", store.search_items(namespace))
        listed = await self.call("store.list_namespaces", store.list_namespaces(prefix=["users", "me"]))
        assert listed["namespaces"] == [namespace]
        await self.call("store.delete_item", store.delete_item(namespace, "color"))
        assert (await store.search_items(namespace))["items"] == []

    async def deletion(self) -> None:
        await self.call("threads.delete", self.client.threads.delete(self.thread_id))
        await self.call("threads.get deleted", self.client.threads.get(self.thread_id))
        await self.call("ok", self.client.http.get("/ok"))


async def shapes_at(url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Run the script against a server and return the shapes."""
    async with get_client(url=url, headers=headers) as client:
        script = Script(client)
        await script.run()
    return script.shapes


def differences(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return where *ours* lacks what is in *theirs*, or has it of another type."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        wanted = cast("dict[str, Any]", theirs)
        missing = [f"{path}.{key} is missing" for key in wanted if key not in ours]
        return missing + [
            one for key, part in wanted.items() if key in ours for one in differences(part, ours[key], f"{path}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list):
        left, right = cast("list[Any]", theirs), cast("list[Any]", ours)
        if len(left) != len(right):
            return [f"{path}: {[*map(_name, right)]}, not {[*map(_name, left)]}"]
        pairs = enumerate(zip(left, right, strict=True))
        return [one for place, pair in pairs for one in differences(*pair, f"{path}[{place}]")]
    return [] if theirs == ours else [f"{path} is {ours!r}, not {theirs!r}"]


def _name(part: Any) -> Any:
    return cast("list[Any]", part)[0] if isinstance(part, list) and part else cast("Any", part)
