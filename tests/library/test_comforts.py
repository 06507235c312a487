"""What makes the Python API pleasant: short reprs, tables in notebooks, events with texts, FastAPI."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import trim_messages

import threadkeep
import threadkeep.errors
import threadkeep.fastapi
from threadkeep.errors import InvalidInputError, ThreadkeepError
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana.maria@x.org"


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


class TestRepr:
    async def test_it_is_one_short_line(self, tk: threadkeep.Threadkeep):
        """However long the text is."""
        kept = await tk.memories.remember("I live\nin Lisbon, " + "x" * 200, owner=ANA)
        found = await tk.memories.search("Lisbon", owner=ANA)
        proposed = await tk.proposals.propose("Ana likes tea.", owner=ANA)
        recall = await tk.recall("Do I live in Lisbon?", owner=ANA)

        assert repr(kept.memory).startswith(f"<Memory {kept.memory_id[:8]} semantic: 'I live in Lisbon, xx")
        assert repr(found[0]).startswith(f"<Recalled {found[0].score:.2f} 'I live in Lisbon")
        assert f"{proposed.proposal!r}".endswith("pending: add 'Ana likes tea.'>")
        assert repr(recall).startswith(f"<Recall of {len(recall.memories)} memories, {recall.tokens} tokens")
        assert max(len(repr(one)) for one in (kept.memory, found[0], proposed.proposal, recall)) < 160
        assert found[0].text == kept.memory.text

    def test_a_client_shows_storage_and_owner(self):
        """And no password."""
        with threadkeep.open("postgresql://u:hunter2@127.0.0.1:1/d", owner=ANA, embedder="none") as tk:
            assert repr(tk).startswith("<Threadkeep postgres")
            assert "hunter2" not in repr(tk)
            assert f"owner {ANA!r}>" in repr(tk)
            assert "(locked)" in repr(tk.for_owner(ANA))


class TestNotebooks:
    async def test_tables_escape_what_was_said(self, tk: threadkeep.Threadkeep):
        """A memory is text of the user."""
        kept = await tk.memories.remember("I like <script>alert(1)</script> & tea", owner=ANA)
        (found, *_) = await tk.memories.search("tea", owner=ANA)
        recall = await tk.recall("Do I like tea?", owner=ANA)
        proposed = await tk.proposals.propose("Ana likes <b>tea</b>", owner=ANA)

        for shown in (kept.memory, found, recall, proposed.proposal):
            html = shown._repr_html_()  # type: ignore[union-attr]
            assert html.startswith("<table>")
            assert html.endswith("</table>")
            assert "<script>" not in html
            assert "<b>" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; tea" in kept.memory._repr_html_()


class TestEvents:
    @pytest.mark.parametrize("blocking", [True, False])
    async def test_texts_come_with_the_event_where_they_are_asked_for(
        self, tk: threadkeep.Threadkeep, *, blocking: bool
    ):
        """Otherwise only ids do."""
        kept = await tk.memories.remember("I live in Lisbon", owner=ANA)
        events: dict[str, Any] = {}
        for name in ("ids", "full"):
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware(events=name)])
            given: Any = {"messages": [{"role": "user", "content": "Do I live in Lisbon?"}]}
            config = tk.config(user_id=ANA, thread_id=name)
            if blocking:
                streamed = list(agent.stream(given, config, stream_mode="custom"))
            else:
                streamed = [one async for one in agent.astream(given, config, stream_mode="custom")]
            events[name] = next(one for one in streamed if one["type"] == "recalled")["memories"][0]

        assert set(events["ids"]) == {"id", "score"}
        assert events["full"] == {
            "id": kept.memory_id,
            "score": events["full"]["score"],
            "text": "I live in Lisbon",
            "kind": "semantic",
            "said_at": kept.memory.created_at.isoformat(),
            "said_by": "user",
            "thread_id": None,
            "message_id": None,
            "approved_by": None,
            "earlier": False,
            "may_hold": False,
        }

    def test_another_word_is_refused(self, tk: threadkeep.Threadkeep):
        with pytest.raises(InvalidInputError, match="events must be ids or full, got 'all'"):
            tk.middleware(events="all")


class TestNames:
    def test_arguments_of_the_window_are_langchains(self):
        """``keep`` as for summaries, and ``max_tokens`` as for trimming."""
        ours = [
            inspect.signature(one).parameters for one in (threadkeep.Threadkeep.window, threadkeep.Threadkeep.compact)
        ]

        for langchain, name in ((SummarizationMiddleware, "keep"), (trim_messages, "max_tokens")):
            assert name in inspect.signature(langchain).parameters
            assert all(name in parameters for parameters in ours)


class TestTools:
    def test_statements_are_called_text_everywhere(self, tk: threadkeep.Threadkeep):
        """As in the Python API."""
        tools = {tool.name: set(tool.args) for tool in tk.tools("remember", "correct_memory", "propose_memory_update")}

        assert all("text" in names and "statement" not in names for names in tools.values())
        for service in (tk.memories, tk.proposals):
            for name, method in inspect.getmembers(service, callable):
                if not name.startswith("_"):
                    assert "statement" not in inspect.signature(method).parameters, name


class TestStatuses:
    """The HTTP statuses of ``threadkeep.fastapi``; tests/examples runs an application with them."""

    def test_every_error_has_a_status(self):
        """4xx is the caller's fault; only a wrong configuration is a 500, and its message is not shown."""
        kinds = [kind for kind in vars(threadkeep.errors).values() if _is_error(kind)]
        statuses = {kind.__name__: threadkeep.fastapi.status_of(kind("It failed.")) for kind in kinds}

        assert len(statuses) > 30
        assert {name for name, status in statuses.items() if status == 500} == {
            "ThreadkeepError",
            "SettingsError",
            "StaleVectorsError",
            "RerankerUnavailableError",
            "RunUnfinishedError",
        }


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, ThreadkeepError)
