"""Spans and their names, decorators that pass everything on, metadata for LangSmith; no text unless asked for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import threadkeep
from threadkeep import observability as tracing
from threadkeep.functions import trace_agent_stream
from threadkeep.observability import trace_agent
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana@x.org"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TAUGHT = "My favourite colour is ultramarine."
ASKED = "What is my favourite colour?"
SECRET = "sk-proj-Zq7Xw2Lr9Tn4Vb6Ym1Kc8Hd3"
EVERYTHING: dict[str, Any] = {"user_id": ANA, "trace_id": "abc", "tags": ["x"], "unknown": object()}


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


def finished(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in spans.get_finished_spans() if one.name == name]


def everything_in(spans: Sequence[ReadableSpan]) -> str:
    return "\n".join(one.to_json() for one in spans)


class Metadata(BaseCallbackHandler):
    """Keeps what a tracer such as LangSmith's is told when a run and its model calls begin."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def on_chain_start(self, *_: Any, metadata: dict[str, Any] | None = None, **__: Any) -> None:
        self.runs.append(metadata or {})

    def on_chat_model_start(self, *_: Any, metadata: dict[str, Any] | None = None, **__: Any) -> None:
        self.runs.append(metadata or {})


class TestATurn:
    async def test_recall_and_capture_are_spans_of_the_applications_trace(
        self, tk: threadkeep.Threadkeep, spans: InMemorySpanExporter
    ):
        await tk.memories.remember(TAUGHT, owner=ANA)
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        with trace.get_tracer("app").start_as_current_span("request") as request:
            await agent.ainvoke({"messages": [HumanMessage(ASKED)]}, tk.config(user_id=ANA, thread_id="t1"))

        [recall], [capture] = finished(spans, tracing.RECALL), finished(spans, tracing.CAPTURE)
        for one in (recall, capture):
            assert one.attributes is not None
            assert one.context is not None
            assert one.context.trace_id == request.get_span_context().trace_id
            assert (one.attributes[tracing.USER], one.attributes[tracing.THREAD]) == (ANA, "t1")
        assert recall.attributes is not None
        assert recall.attributes[tracing.MEMORIES] == 1
        assert capture.attributes is not None
        assert (capture.attributes[tracing.STATUS], capture.attributes[tracing.TURNS]) == ("queued", 1)

    async def test_no_text_is_in_them(self, tk: threadkeep.Threadkeep, spans: InMemorySpanExporter):
        await tk.memories.remember(TAUGHT, owner=ANA)
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware(), tk.window()])

        await agent.ainvoke({"messages": [HumanMessage(ASKED)]}, tk.config(user_id=ANA, thread_id="t1"))

        said = everything_in(spans.get_finished_spans())
        assert tracing.RECALL in said
        assert "colour" not in said
        assert "Noted" not in said

    async def test_neither_tools_nor_jobs_nor_learning_say_any_text(
        self, tk: threadkeep.Threadkeep, spans: InMemorySpanExporter
    ):
        """A job whose tools write and find, a secret in a message, a turn learnt from at once: no word of it."""
        calls = [
            AIMessage("", tool_calls=[{"name": "remember", "args": {"text": "I row on the Tagus."}, "id": "1"}]),
            AIMessage("", tool_calls=[{"name": "search_memory", "args": {"query": "colour"}, "id": "2"}]),
            AIMessage("Ultramarine."),
        ]
        await tk.memories.remember(TAUGHT, owner=ANA)
        agent = create_agent(
            ScriptedModel(replies=calls), tk.tools(), middleware=[tk.middleware()], checkpointer=tk.checkpointer
        )
        asked = f"I live in Coimbra, my key is {SECRET}. {ASKED}"
        run = await tk.runs.start(agent, {"messages": [HumanMessage(asked)]}, thread_id="t1", owner=ANA)
        await tk.capture([HumanMessage("I live in Porto."), AIMessage("Noted.")], owner=ANA, thread_id="t2", wait=True)

        assert run.require_done()["messages"][-1].content == "Ultramarine."
        assert [message for message in run.values["messages"] if message.type == "tool"]
        said = everything_in(spans.get_finished_spans())
        assert {tracing.RECALL, tracing.CAPTURE} <= {one.name for one in spans.get_finished_spans()}
        for word in ("ltramarine", "olour", "Coimbra", "Porto", "Tagus", SECRET):
            assert word not in said

    async def test_text_is_there_where_it_is_asked_for(
        self, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("THREADKEEP_TRACE_CONTENT", "true")
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            await tk.memories.remember(TAUGHT, owner=ANA)
            await tk.recall(ASKED, owner=ANA)

        assert TAUGHT in everything_in(finished(spans, tracing.RECALL))

    async def test_a_compaction_is_one(self, tk: threadkeep.Threadkeep, spans: InMemorySpanExporter):
        agent = create_agent(
            ScriptedModel(), [], middleware=[tk.window(max_tokens=1_000)], checkpointer=tk.checkpointer
        )
        config = tk.config(user_id=ANA, thread_id="t1")

        for number in range(4):
            await agent.ainvoke({"messages": [HumanMessage(f"{number} " + "We talk of hills. " * 60)]}, config)

        one = finished(spans, tracing.COMPACT)[0]
        assert one.attributes is not None
        assert one.attributes[tracing.REMOVED]
        assert one.attributes[tracing.THREAD] == "t1"
        assert "hills" not in everything_in(finished(spans, tracing.COMPACT))

    @pytest.mark.slow
    def test_opentelemetry_is_not_imported_for_it(self):
        """A process that does not use OpenTelemetry is not made to load it, and works the same."""
        program = (
            "import sys, asyncio, threadkeep\n"
            "tk = threadkeep.open('memory://', embedder='none')\n"
            "asyncio.run(tk.recall('Where?', owner='ana'))\n"
            "tk.close()\n"
            "print(any(name.startswith('opentelemetry') for name in sys.modules))"
        )

        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

        assert done.stdout.strip() == "False"

    def test_without_a_provider_only_a_trace_of_another_process_is_kept(self):
        code = f"""
from opentelemetry import context, trace
from threadkeep.observability import current_traceparent, span
before = context.get_current()
with span("x"):
    assert context.get_current() is before
with span("x", parent={TRACEPARENT!r}):
    assert current_traceparent() == {TRACEPARENT!r}
"""

        subprocess.run([sys.executable, "-c", code], check=True)


class Agent:
    """An agent as applications have them: each kind of function, and keywords that only it knows."""

    def __init__(self) -> None:
        self.got: dict[str, Any] = {}

    @trace_agent_stream("platform")
    async def stream(self, query: str, context_id: str, **kwargs: Any) -> AsyncIterator[str]:
        self.got = {"query": query, "context_id": context_id, **kwargs}
        for word in query.split():
            with trace.get_tracer("app").start_as_current_span("inside"):
                await asyncio.sleep(0)
            yield word

    @trace_agent("platform")
    def generate(self, query: str, *, context_id: str, **kwargs: Any) -> Iterator[str]:
        self.got = {"query": query, "context_id": context_id, **kwargs}
        yield from query.split()

    @trace_agent("platform")
    async def run(self, query: str, context_id: str = "", **kwargs: Any) -> str:
        self.got = {"query": query, "context_id": context_id, **kwargs}
        return query

    @trace_agent("platform")
    def call(self, query: str, context_id: str = "", **kwargs: Any) -> str:
        self.got = {"query": query, "context_id": context_id, **kwargs}
        return query

    @trace_agent()
    def fail(self, query: str) -> None:
        raise ValueError(query)


class TestDecorate:
    async def test_every_argument_is_passed_on(self, spans: InMemorySpanExporter):
        agent = Agent()
        expected = {"query": "one two", "context_id": "t1", **EVERYTHING}

        assert [word async for word in agent.stream("one two", "t1", **EVERYTHING)] == ["one", "two"]
        assert agent.got == expected
        assert list(agent.generate("one two", context_id="t1", **EVERYTHING)) == ["one", "two"]
        assert agent.got == expected
        assert await agent.run("one two", "t1", **EVERYTHING) == "one two"
        assert agent.got == expected
        assert agent.call("one two", context_id="t1", **EVERYTHING) == "one two"
        assert agent.got == expected

        made = finished(spans, f"{tracing.AGENT} platform")
        assert len(made) == 4
        for one in made:
            assert one.attributes == {
                tracing.OPERATION: tracing.AGENT,
                tracing.AGENT_NAME: "platform",
                tracing.USER: ANA,
                tracing.THREAD: "t1",
                tracing.TRACE: "abc",
            }

    async def test_what_happens_inside_is_below_and_what_the_caller_does_is_not(self, spans: InMemorySpanExporter):
        async for _ in Agent().stream("one two", "t1"):
            with trace.get_tracer("app").start_as_current_span("callers"):
                pass

        [outer] = finished(spans, f"{tracing.AGENT} platform")
        inside, callers = finished(spans, "inside"), finished(spans, "callers")
        assert len(inside) == len(callers) == 2
        assert all(one.parent is not None and one.parent == outer.context for one in inside)
        assert all(one.parent is None for one in callers)

    async def test_a_stream_that_is_left_early_ends_its_span(self, spans: InMemorySpanExporter):
        stream = Agent().stream("one two", "t1")

        assert await anext(stream) == "one"
        await stream.aclose()  # type: ignore[attr-defined]

        [one] = finished(spans, f"{tracing.AGENT} platform")
        assert one.status.status_code is StatusCode.UNSET

    async def test_who_and_where_may_stand_in_the_config(self, tk: threadkeep.Threadkeep, spans: InMemorySpanExporter):
        @trace_agent()
        async def answer(question: str, config: Any) -> str:
            return question

        await answer("?", tk.config(user_id=ANA, thread_id="t7", trace_id="abc"))

        [one] = finished(spans, f"{tracing.AGENT} answer")
        assert one.attributes is not None
        assert [one.attributes[key] for key in (tracing.USER, tracing.THREAD, tracing.TRACE)] == [ANA, "t7", "abc"]

    @pytest.mark.parametrize("key", ["sessionId", "session_id", "langfuse_session_id"])
    async def test_sessions_of_other_tracers_are_threads(self, key: str, spans: InMemorySpanExporter):
        """LangSmith and Langfuse name them so in a run's metadata."""

        @trace_agent()
        async def answer(question: str, config: Any) -> str:
            return question

        await answer("?", {"metadata": {key: "t7", "langfuse_user_id": ANA}})

        [one] = finished(spans, f"{tracing.AGENT} answer")
        assert one.attributes is not None
        assert [one.attributes[name] for name in (tracing.USER, tracing.THREAD)] == [ANA, "t7"]

    @pytest.mark.parametrize("content", [True, False])
    async def test_the_documents_arguments_are_taken(
        self, content: bool, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
    ):
        """The input is noted only if both the decorator and the setting ask for content."""
        monkeypatch.setenv("THREADKEEP_TRACE_CONTENT", str(content))

        @trace_agent_stream("platform", trace_name="engineer", update_input=True)
        async def stream(context_id: str, query: str) -> AsyncIterator[str]:
            yield query

        assert [word async for word in stream("t1", "ultramarine")] == ["ultramarine"]
        [one] = finished(spans, f"{tracing.AGENT} platform")
        assert one.attributes is not None
        assert one.attributes[tracing.TRACE_NAME] == "engineer"
        assert one.attributes.get(tracing.INPUT) == ("ultramarine" if content else None)

    def test_an_error_is_named_and_not_quoted(self, spans: InMemorySpanExporter):
        with pytest.raises(ValueError, match="ultramarine"):
            Agent().fail(TAUGHT)

        [one] = finished(spans, f"{tracing.AGENT} fail")
        assert one.status.status_code is StatusCode.ERROR
        assert one.attributes is not None
        assert one.attributes[tracing.ERROR] == "ValueError"
        assert "ultramarine" not in everything_in([one])


class TestDocument:
    def test_every_name_is_documented(self):
        """The page lists what `tracing.py` names."""
        page = (Path(__file__).parents[1] / "docs/tracing.md").read_text("utf-8")
        names = [
            value
            for key, value in vars(tracing).items()
            if key[0].isupper() and key.isupper() and isinstance(value, str)
        ]

        assert len(names) > 15
        assert [name for name in names if name not in page] == []


class TestMetadata:
    async def test_user_thread_and_trace_reach_every_run(self, tk: threadkeep.Threadkeep, spans: object):
        tracer = Metadata()
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        with trace.get_tracer("app").start_as_current_span("request") as request:
            config = {**tk.config(user_id=ANA, thread_id="t1"), "callbacks": [tracer]}
        await agent.ainvoke({"messages": [HumanMessage(ASKED)]}, config)  # type: ignore[arg-type]

        opened = trace.format_trace_id(request.get_span_context().trace_id)
        assert len(tracer.runs) > 2
        for told in tracer.runs:
            assert (told["user_id"], told["thread_id"], told["trace_id"]) == (ANA, "t1", opened)

    def test_without_a_trace_there_is_no_id(self, tk: threadkeep.Threadkeep):
        assert tk.config(user_id=ANA, thread_id="t1").get("metadata") == {
            "user_id": ANA,
            "thread_id": "t1",
            "langfuse_user_id": ANA,
            "langfuse_session_id": "t1",
        }
