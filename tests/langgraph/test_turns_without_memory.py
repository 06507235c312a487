"""Turns without memory in threads that go on with memory: their words stay in the thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import threadkeep
from tests.langgraph.test_window import LimitedModel, answered, long, said
from threadkeep.langgraph.history import SUMMARY_HEADING
from threadkeep.testing import HashingEmbedder

ANA = threadkeep.Owner("ana@x.org")
SECRET = "My boat is called Zanzibar."


class RepeatingModel(LimitedModel):
    """Puts every name of a boat into its summaries, and fails where it is asked to."""

    limit: int = 100_000
    failing: bool = False

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.failing:
            msg = "The provider is down."
            raise ConnectionError(msg)
        answer = super()._generate(messages, *args, **kwargs)
        if messages[-1].text.startswith("Summarise the conversation"):
            names = sorted(set(re.findall(r"boat is called (\w+)", messages[-1].text)))
            return answered("They talked. " + " ".join(f"The boat is called {name}." for name in names))
        return answer


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashingEmbedder()) as opened:
        yield opened


class Talk:
    """A thread of one owner, with turns with and without memory."""

    def __init__(self, tk: threadkeep.Threadkeep, *, middleware: bool = True, capture: bool = True) -> None:
        self._tk, self._view, self.model = tk, tk.per_run_owner(), RepeatingModel()
        remembering = [self._view.middleware(capture=capture)] if middleware else []
        self.agent: Any = create_agent(
            self.model,
            tools=[],
            middleware=[*remembering, self._view.window(max_tokens=2_000)],
            checkpointer=self._view.checkpointer,
        )

    async def say(self, text: str, *, memory: bool = True, thread_id: str = "1") -> None:
        await self.agent.ainvoke(said(text), self._view.config(ANA, thread_id=thread_id, memory=memory))

    async def go_on(self, first: int = 0, last: int = 30, *, memory: bool = True) -> None:
        for number in range(first, last):
            await self.say(long(number), memory=memory)

    async def messages(self) -> list[Any]:
        return (await self.agent.aget_state(self._view.config(ANA, thread_id="1"))).values["messages"]

    async def reach(self) -> str:
        """Return all that other threads could get: memories, episodes, summaries, and the block of a question."""
        await self._tk.drain()
        await self.say("What is my boat called?", thread_id="2")
        prompt = "\n".join(message.text for message in self.model.prompts[-1])
        memories = await self._tk.memories.list(owner=ANA, limit=1_000)
        summaries = await self._tk.store.asearch(("summaries", self._tk.label(ANA)))
        found = [prompt, *(one.text for one in memories), *(str(one.value) for one in summaries)]
        return "\n".join(found)

    async def summaries(self) -> int:
        return len(await self._tk.store.asearch(("summaries", self._tk.label(ANA))))


class TestSummaries:
    @pytest.mark.parametrize("memory", [True, False])
    async def test_words_of_a_turn_without_memory_are_in_no_summary_for_other_threads(
        self, tk: threadkeep.Threadkeep, *, memory: bool
    ):
        """The thread itself keeps them, in summaries of summaries, too."""
        talk = Talk(tk)
        await talk.say("I live in Lisbon.")
        await talk.say(SECRET, memory=memory)

        await talk.go_on()

        assert talk.model.summaries >= 2
        messages = await talk.messages()
        assert messages[0].text.startswith(SUMMARY_HEADING)
        assert "Zanzibar" in messages[0].text
        assert await talk.summaries() == memory
        assert ("Zanzibar" in await talk.reach()) == memory

    @pytest.mark.parametrize("said", [f"Please don't save that {SECRET.lower()}", f"{SECRET} Don't remember this."])
    async def test_what_the_user_refuses_to_have_remembered_is_in_no_summary_for_other_threads(
        self, tk: threadkeep.Threadkeep, said: str
    ):
        """The thread itself keeps it, as it keeps the words of a turn without memory."""
        talk = Talk(tk)
        await talk.say("I live in Lisbon.")
        await talk.say(said)

        await talk.go_on()

        assert talk.model.summaries >= 2
        assert "zanzibar" in (await talk.messages())[0].text.lower()
        assert await talk.summaries() == 0
        assert "zanzibar" not in (await talk.reach()).lower()

    async def test_a_turn_without_memory_that_summarises_marks_its_own_words_only(self, tk: threadkeep.Threadkeep):
        """Turns with memory before it reach other threads, as ever."""
        talk = Talk(tk)
        await talk.say(SECRET)
        await talk.go_on(0, 8)
        assert talk.model.summaries == 0
        while talk.model.summaries == 0:
            await talk.say(long(9), memory=False)
        assert await talk.summaries() == 0  # it keeps nothing itself

        await talk.say("My boat is called Wave.")
        assert "Zanzibar" in (await talk.messages())[0].text
        assert not (await talk.messages())[0].additional_kwargs.get("threadkeep_without_memory")

    @pytest.mark.parametrize(("middleware", "capture"), [(False, False), (True, False)])
    async def test_nothing_needs_to_be_on_record(self, tk: threadkeep.Threadkeep, *, middleware: bool, capture: bool):
        """A window alone knows the turns without memory, too."""
        talk = Talk(tk, middleware=middleware, capture=capture)
        await talk.say(SECRET, memory=False)

        await talk.go_on()

        assert talk.model.summaries >= 2
        assert "Zanzibar" in (await talk.messages())[0].text
        assert await talk.summaries() == 0
        assert "Zanzibar" not in await talk.reach()

    async def test_a_turn_without_memory_records_nothing_that_it_removes(self, tk: threadkeep.Threadkeep):
        """It binds no thread to its owner, so what others said in it must not become the owner's."""
        talk = Talk(tk, middleware=False)
        await talk.say("I live in Lisbon.")
        while talk.model.summaries == 0:
            await talk.say(long(9), memory=False)
        await tk.drain()

        assert await tk.memories.list(owner=ANA) == []

    async def test_a_message_that_got_no_reply(self, tk: threadkeep.Threadkeep):
        """It is of one turn with the message after it: that turn is without memory."""
        talk = Talk(tk)
        await talk.say("I live in Lisbon.")
        talk.model.failing = True
        with suppress(ConnectionError):
            await talk.say(SECRET, memory=False)
        talk.model.failing = False

        await talk.go_on()

        assert "Zanzibar" in (await talk.messages())[0].text
        reach = await talk.reach()
        assert "Zanzibar" not in reach
        assert "Lisbon" in reach

    async def test_a_marked_reply_is_streamed_once(self, tk: threadkeep.Threadkeep):
        talk = Talk(tk)
        off = tk.per_run_owner().config(ANA, thread_id="1", memory=False)

        parts = [part async for part, _ in talk.agent.astream(said(SECRET), off, stream_mode="messages")]

        assert [part.text for part in parts] == ["I see."]
        assert [message.text for message in await talk.messages()] == [SECRET, "I see."]

    async def test_tk_compact_keeps_no_such_summary(self, tk: threadkeep.Threadkeep):
        talk = Talk(tk)
        await talk.say(SECRET, memory=False)
        await talk.go_on(0, 8)
        messages = await talk.messages()
        assert talk.model.summaries == 0

        shorter = await tk.compact(messages, model=talk.model, max_tokens=1_000, owner=ANA, thread_id="1")

        assert talk.model.summaries == 1
        assert len(shorter.messages) < len(messages)
        assert await talk.summaries() == 0


class TestRecords:
    async def test_the_turn_stays_one_without_memory(self, tk: threadkeep.Threadkeep):
        """Later turns record it again, with its reply; what it was stays."""
        talk = Talk(tk)
        await talk.say("I live in Lisbon.")
        await talk.say(SECRET, memory=False)
        await talk.say("I drink tea.")
        await talk.say("I have two cats.")
        await tk.drain()

        turns = await tk.for_owner(ANA).threads.turns("1")

        assert [turn.memory for turn in turns] == [True, False, True, True]
        assert [bool(turn.memory_ids) for turn in turns] == [True, False, True, True]
        assert "Zanzibar" not in await talk.reach()

    async def test_it_may_be_learnt_from_where_the_message_is_said_again(self, tk: threadkeep.Threadkeep):
        """The mark is on the message, not on its words."""
        talk = Talk(tk)
        await talk.say(SECRET, memory=False)
        await talk.say(SECRET)
        await tk.drain()

        assert "Zanzibar" in await talk.reach()


class TestOutages:
    """The storage is away while a turn without memory takes place: the thread itself says so later."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "memory.db"
        file.write_bytes(b"this is no database at all" * 100)
        return file

    @staticmethod
    def say(file: Path, saver: Any, text: str, *more: Any, memory: bool = True, failing: bool = False) -> None:
        """Say *text* in a process of its own."""
        with threadkeep.open(f"sqlite:///{file}", embedder=HashingEmbedder()) as tk:
            model = RepeatingModel(failing=failing)
            agent: Any = create_agent(model, [], middleware=[*more, tk.middleware()], checkpointer=saver)
            agent.invoke(said(text), tk.config(user_id="ana", thread_id="1", memory=memory))

    @staticmethod
    def facts(file: Path) -> list[str]:
        with threadkeep.open(f"sqlite:///{file}", embedder=HashingEmbedder()) as tk:
            tk.sync.drain()
            return sorted(one.text for one in tk.sync.memories.list(owner="ana"))

    @pytest.mark.parametrize("memory", [True, False])
    def test_its_words_are_not_learnt_by_a_later_turn(self, file: Path, *, memory: bool):
        saver = InMemorySaver()
        self.say(file, saver, SECRET, memory=memory)
        file.unlink()

        self.say(file, saver, "I have two cats.")

        assert ("Zanzibar" in str(self.facts(file))) == memory
        assert "I have two cats." in self.facts(file)

    def test_it_may_end_before_a_model_is_called(self, file: Path):
        """Another middleware answers, or ends the turn without an answer."""

        class Guard(AgentMiddleware[Any, Any, Any]):
            @hook_config(can_jump_to=["end"])
            def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
                return {"jump_to": "end"}

        saver = InMemorySaver()
        self.say(file, saver, SECRET, Guard(), memory=False)
        file.unlink()

        self.say(file, saver, "I have two cats.")

        assert "Zanzibar" not in str(self.facts(file))

    @pytest.mark.parametrize("memory", [True, False])
    @pytest.mark.parametrize("outages", [1, 2])
    def test_a_message_that_got_no_reply_is_not_learnt_by_a_later_turn(
        self, file: Path, tmp_path: Path, outages: int, *, memory: bool
    ):
        """The checkpoint that has it says that its run had no memory, however many runs fail after it."""
        with threadkeep.open(f"sqlite:///{tmp_path / 'threads.db'}", embedder="none") as threads:
            saver = threads.checkpointer
            self.say(file, saver, "Hello.")
            with pytest.raises(ConnectionError):
                self.say(file, saver, SECRET, memory=memory, failing=True)
            for _ in range(1, outages):
                with pytest.raises(ConnectionError):
                    self.say(file, saver, "Are you there?", failing=True)
            file.unlink()

            self.say(file, saver, "I live in Lisbon.")
            self.say(file, saver, "I have two cats.")

            assert ("Zanzibar" in str(self.facts(file))) == memory
            assert ("I live in Lisbon." in self.facts(file)) == memory  # it is of one turn with the message before it
            assert "I have two cats." in self.facts(file)

    async def test_it_is_in_no_summary_for_other_threads(self, tmp_path: Path):
        """A window knows it, too, if the memory's middleware recorded nothing."""
        with threadkeep.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder=HashingEmbedder()) as tk:
            talk = Talk(tk, middleware=False)
            talk.model.failing = True
            with suppress(ConnectionError):
                await talk.say(SECRET, memory=False)
            talk.model.failing = False

            await talk.go_on()

            assert "Zanzibar" in (await talk.messages())[0].text
            assert await talk.summaries() == 0
            assert "Zanzibar" not in await talk.reach()


class TestPlainGraphs:
    @pytest.mark.parametrize("memory", [True, False])
    @pytest.mark.parametrize("sync", [True, False])
    async def test_capture_learns_nothing_in_a_run_without_memory(
        self, tk: threadkeep.Threadkeep, *, sync: bool, memory: bool
    ):
        """Nor does the next turn, which brings all messages of the thread along."""
        model, receipts = RepeatingModel(), list[threadkeep.Receipt]()

        async def chat(state: MessagesState) -> dict[str, Any]:
            reply = await model.ainvoke(state["messages"])
            messages, where = [*state["messages"], reply], {"owner": ANA, "thread_id": "1"}
            if sync:
                receipts.append(await asyncio.to_thread(lambda: tk.sync.capture(messages, **where)))
            else:
                receipts.append(await tk.capture(messages, **where))
            return {"messages": [reply]}

        builder = StateGraph(MessagesState)
        builder.add_node(chat)
        builder.add_edge(START, "chat")
        graph: Any = builder.compile(checkpointer=tk.checkpointer)
        for text, on in (("I live in Lisbon.", True), (SECRET, memory), ("I have two cats.", True)):
            await graph.ainvoke(said(text), tk.config(user_id="ana@x.org", thread_id="1", memory=on))
        await tk.drain()

        learnt = str([one.text for one in await tk.memories.list(owner=ANA)])
        assert [receipt.status for receipt in receipts] == ["queued", "queued" if memory else "nothing", "queued"]
        assert ("Zanzibar" in learnt) == memory
        assert "Lisbon" in learnt
        assert "two cats" in learnt
