"""Compaction for graphs without middleware: the same repairs, the same one summary, one update of the thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

import threadkeep
from tests.langgraph.test_turns_without_memory import RepeatingModel
from tests.langgraph.test_window import LimitedModel, long
from threadkeep.errors import ContextTooLargeError, InvalidInputError
from threadkeep.langgraph.history import SUMMARY_HEADING, UNANSWERED, estimated
from threadkeep.langgraph.window import is_overflow
from threadkeep.testing import HashingEmbedder

ANA = "ana@x.org"


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


def talk(turns: int) -> list[BaseMessage]:
    said: list[BaseMessage] = []
    for number in range(turns):
        said += [HumanMessage(long(number), id=f"h{number}"), AIMessage(f"Reply {number}.", id=f"a{number}")]
    return [*said, HumanMessage("And now?", id="now")]


def summaries_in(messages: Any) -> list[str]:
    return [message.text for message in messages if message.text.startswith(SUMMARY_HEADING)]


class TestCompact:
    async def test_a_short_history_is_left_alone(self, tk: threadkeep.Threadkeep):
        given = talk(2)

        fits = await tk.compact(given, owner=ANA, thread_id="t1", model=LimitedModel(), max_tokens=10_000)

        assert list(fits.messages) == given
        assert not fits.changed
        assert fits.update == []

    async def test_older_messages_give_way_to_the_models_summary(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=5_000)
        given = [SystemMessage("Be kind.", id="s"), *talk(12)]

        fits = await tk.compact(given, owner=ANA, thread_id="t1", model=model, max_tokens=1_000)

        assert model.summaries == 1
        assert fits.messages[0].text == "Be kind."
        assert len(summaries_in(fits.messages)) == 1
        assert fits.messages[1].text.startswith(SUMMARY_HEADING)
        assert fits.messages[-1].text == "And now?"
        assert estimated(fits.messages).total <= 800

    async def test_without_a_model_the_sentences_that_say_most_are_taken(self, tk: threadkeep.Threadkeep):
        fits = await tk.compact(talk(12), owner=ANA, thread_id="t1", max_tokens=1_000)

        [summary] = summaries_in(fits.messages)
        assert "We talk about the weather in the hills." in summary

    async def test_the_summary_is_kept_once_and_what_goes_is_recorded(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=5_000)
        first = await tk.compact(
            [HumanMessage("My boat is called Mira.", id="b"), AIMessage("Fine.", id="f"), *talk(12)],
            owner=ANA,
            thread_id="t1",
            model=model,
            max_tokens=1_000,
        )
        await tk.compact(
            [*first.messages, AIMessage("Hm."), *talk(12)], owner=ANA, thread_id="t1", model=model, max_tokens=1_000
        )
        await tk.drain()

        assert model.summaries == 2
        assert len(await tk.store.asearch(("summaries", tk.label(ANA)))) == 1
        assert any("Mira" in memory.text for memory in await tk.memories.list(owner=ANA))

    async def test_without_an_owner_nothing_is_kept(self, tk: threadkeep.Threadkeep):
        fits = await tk.compact(talk(12), thread_id="t1", max_tokens=1_000)

        assert len(summaries_in(fits.messages)) == 1
        assert await tk.store.asearch(()) == []

    async def test_a_call_without_a_result_is_answered_in_place(self, tk: threadkeep.Threadkeep):
        call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}], id="a")

        fits = await tk.compact([HumanMessage("Look."), call, HumanMessage("And?")], owner=ANA, thread_id="t1")

        assert isinstance(fits.messages[2], ToolMessage)
        assert fits.messages[2].text == UNANSWERED
        assert fits.changed

    async def test_off_means_off(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ENABLE_AUTO_COMPRESSION", "false")
        with threadkeep.open("memory://", embedder="none") as tk:
            fits = await tk.compact(talk(12), owner=ANA, thread_id="t1", max_tokens=1_000)

        assert not fits.changed

    def test_without_a_loop(self, tk: threadkeep.Threadkeep):
        fits = tk.sync.compact(talk(12), owner=ANA, thread_id="t1", model=LimitedModel(limit=5_000), max_tokens=1_000)

        assert len(summaries_in(fits.messages)) == 1

    async def test_what_is_no_message_is_refused(self, tk: threadkeep.Threadkeep):
        with pytest.raises(InvalidInputError, match="A message is"):
            await tk.compact([object()], owner=ANA)


class TestRefused:
    async def test_it_gets_smaller_in_any_case(self, tk: threadkeep.Threadkeep):
        given = talk(6)

        fits = await tk.compact(given, owner=ANA, thread_id="t1", max_tokens=100_000, refused=True)

        assert estimated(fits.messages).total < estimated(given).total * 0.75
        assert fits.messages[-1].text == "And now?"

    async def test_what_can_never_fit_is_named(self, tk: threadkeep.Threadkeep):
        with pytest.raises(ContextTooLargeError, match="position 0"):
            await tk.compact([HumanMessage("x " * 500)], owner=ANA, thread_id="t1", refused=True)


class TestInAGraph:
    async def test_history_and_reply_are_one_update_and_a_refusal_is_no_error(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=1_500)

        async def chat(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
            where: dict[str, Any] = {"owner": ANA, "thread_id": config["configurable"]["thread_id"], "model": model}
            fits = await tk.compact(state["messages"], **where, max_tokens=3_000)  # more than the model takes
            try:
                reply = await model.ainvoke(fits.messages)
            except Exception as error:
                if not is_overflow(error):
                    raise
                fits = await tk.compact(fits.messages, **where, max_tokens=3_000, refused=True)
                reply = await model.ainvoke(fits.messages)
            return {"messages": [*fits.update, reply]}

        builder = StateGraph(MessagesState)
        builder.add_node(chat)
        builder.add_edge(START, "chat")
        builder.add_edge("chat", END)
        graph = builder.compile(checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="t1")

        for number in range(20):
            await graph.ainvoke({"messages": [HumanMessage(long(number))]}, config)

        held = (await graph.aget_state(config)).values["messages"]
        assert model.refused > 0
        assert len(summaries_in(held)) == 1
        assert held[-1].text == "I see."
        assert len(held) < 40
        assert len(await tk.store.asearch(("summaries", tk.label(ANA)))) == 1

    @pytest.mark.parametrize("memory", [True, False])
    @pytest.mark.parametrize("sync", [True, False])
    async def test_words_of_a_turn_without_memory_are_in_no_summary_for_other_threads(
        self, tk: threadkeep.Threadkeep, *, memory: bool, sync: bool
    ):
        """The config of the run says so; the thread itself keeps the words."""
        model = RepeatingModel()

        async def chat(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
            where: dict[str, Any] = {"owner": ANA, "thread_id": config["configurable"]["thread_id"], "model": model}
            if sync:
                fits = await asyncio.to_thread(tk.sync.compact, state["messages"], **where, max_tokens=2_000)
            else:
                fits = await tk.compact(state["messages"], **where, max_tokens=2_000)
            return {"messages": [*fits.update, await model.ainvoke(fits.messages)]}

        builder = StateGraph(MessagesState)
        builder.add_node(chat)
        builder.add_edge(START, "chat")
        builder.add_edge("chat", END)
        graph = builder.compile(checkpointer=tk.checkpointer)
        config = tk.config(user_id=ANA, thread_id="t1")
        await graph.ainvoke({"messages": [HumanMessage("I live in Lisbon.")]}, config)
        off = tk.config(user_id=ANA, thread_id="t1", memory=memory)
        await graph.ainvoke({"messages": [HumanMessage("My boat is called Zanzibar.")]}, off)

        for number in range(30):
            await graph.ainvoke({"messages": [HumanMessage(long(number))]}, config)
        await tk.drain()

        held = (await graph.aget_state(config)).values["messages"]
        kept = await tk.store.asearch(("summaries", tk.label(ANA)))
        learnt = [one.text for one in await tk.memories.list(owner=ANA, limit=1_000)]
        assert model.summaries >= 2
        assert "Zanzibar" in held[0].text
        assert ("Zanzibar" in str([item.value for item in kept])) == memory
        assert ("Zanzibar" in str(learnt)) == memory
        assert "Lisbon" in str(learnt)

    async def test_outside_a_run_the_argument_says_so(self, tk: threadkeep.Threadkeep):
        fits = await tk.compact(talk(12), owner=ANA, thread_id="t1", max_tokens=1_000, memory=False)
        later = [*fits.messages, AIMessage("Yes.", id="yes"), *talk(12)]

        fits = await tk.compact(later, owner=ANA, thread_id="t1", max_tokens=1_000)

        assert summaries_in(fits.messages)
        assert await tk.store.asearch(("summaries", tk.label(ANA))) == []
