"""Somebody goes back in a thread and takes another way: each way knows what was learnt on it, and other threads all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage

import threadkeep
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana@example.org"
GREETING = "Hello, I would like to plan a journey."
CAT = "My cat is called Minka."
DOG = "My dog is called Bello."
ASKED = "What is my cat called? And my dog?"


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


class Talk:
    """A thread whose owner goes back in it."""

    def __init__(self, tk: threadkeep.Threadkeep) -> None:
        self.tk = tk
        self.agent: Any = create_agent(
            ScriptedModel(),
            [],
            middleware=[tk.middleware(), tk.window(max_tokens=100_000)],
            checkpointer=tk.checkpointer,
        )

    async def say(self, text: str, *, thread_id: str = "t", checkpoint_id: str | None = None) -> str:
        """Say *text*, and return the newest checkpoint after the reply, where the thread can be gone back to."""
        config = self.tk.config(user_id=ANA, thread_id=thread_id)
        given = {
            "configurable": {**config["configurable"], **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
        }
        await self.agent.ainvoke({"messages": [HumanMessage(text)]}, given)
        await self.tk.drain()
        state = await self.agent.aget_state(config)
        return state.config["configurable"]["checkpoint_id"]

    async def knows(self, thread_id: str = "t", checkpoint_id: str | None = None) -> set[str]:
        """Return what is recalled at a checkpoint for a question that is not kept."""
        configurable = {**self.tk.config(user_id=ANA, thread_id=thread_id)["configurable"]}
        state = await self.agent.aget_state(
            {"configurable": {**configurable, **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}}
        )
        messages = [*state.values.get("messages", []), HumanMessage(ASKED, id="asked")]
        recall = await self.tk.recall(messages, owner=ANA, thread_id=thread_id, budget_tokens=2_000)
        return {name for name in ("Minka", "Bello") if name in recall.text}


@pytest.fixture
def talk(tk: threadkeep.Threadkeep) -> Talk:
    return Talk(tk)


class TestGoBack:
    async def test_each_way_knows_its_own(self, talk: Talk):
        fork = await talk.say(GREETING)
        old = await talk.say(CAT)

        assert await talk.knows(checkpoint_id=fork) == set()
        new = await talk.say(DOG, checkpoint_id=fork)

        assert await talk.knows(checkpoint_id=new) == {"Bello"}
        assert await talk.knows(checkpoint_id=old) == {"Minka"}
        assert await talk.knows("another") == {"Minka", "Bello"}

    async def test_the_ways_go_on(self, talk: Talk):
        """However much is said on each, and however often they take turns."""
        fork = await talk.say(GREETING)
        old = await talk.say("We go by train.", checkpoint_id=await talk.say(CAT))
        new = await talk.say("We go by ship.", checkpoint_id=await talk.say(DOG, checkpoint_id=fork))
        old = await talk.say("It leaves at noon.", checkpoint_id=old)
        new = await talk.say("It leaves at night.", checkpoint_id=new)

        assert await talk.knows(checkpoint_id=old) == {"Minka"}
        assert await talk.knows(checkpoint_id=new) == {"Bello"}

    async def test_what_was_learnt_before_both_is_known_on_both(self, talk: Talk):
        fork = await talk.say(CAT)
        old = await talk.say("We go by train.")
        new = await talk.say("We go by ship.", checkpoint_id=fork)
        newer = await talk.say(DOG, checkpoint_id=await talk.say("Or not.", checkpoint_id=new))

        assert await talk.knows(checkpoint_id=old) == {"Minka"}
        assert await talk.knows(checkpoint_id=newer) == {"Minka", "Bello"}

    async def test_the_model_gets_the_reason(self, tk: threadkeep.Threadkeep, talk: Talk):
        """Through the middleware, in the turn that begins the other way."""
        fork = await talk.say(GREETING)
        await talk.say(CAT)
        model = ScriptedModel()
        asking: Any = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        configurable = tk.config(user_id=ANA, thread_id="t")["configurable"]

        question = {"messages": [HumanMessage("What is my cat called?")]}
        await asking.ainvoke(question, {"configurable": {**configurable, "checkpoint_id": fork}})
        await asking.ainvoke(question, tk.config(user_id=ANA, thread_id="another"))

        there, elsewhere = (str(prompt[-1].content) for prompt in model.prompts)
        assert "Minka" not in there
        assert "Minka" in elsewhere


class TestEdited:
    """The first message is edited: the thread begins again before it, with another text."""

    @pytest.mark.parametrize(
        ("first", "edited", "question"),
        [
            ("I'm allergic to peanuts.", "I'm allergic to walnuts.", "What am I allergic to?"),
            ("I have two children.", "I have three children.", "How many children do I have?"),
            ("I live in Graz.", "I live in Vienna.", "Where do I live?"),
        ],
    )
    async def test_other_threads_take_the_new_text_for_true(
        self, tk: threadkeep.Threadkeep, talk: Talk, first: str, edited: str, question: str
    ):
        """What it said before is not shown, or as earlier."""
        await talk.say(first)
        history = [one async for one in talk.agent.aget_state_history(tk.config(user_id=ANA, thread_id="t"))]
        await talk.say(edited, checkpoint_id=history[-1].config["configurable"]["checkpoint_id"])

        recall = await tk.recall(question, owner=ANA, thread_id="another")

        facts = [(one.memory.text, one.earlier) for one in recall.memories if one.memory.kind == "semantic"]
        assert facts[0] == (edited, False)
        assert (first, False) not in facts

    async def test_what_the_new_text_leaves_out_is_not_withdrawn(self, tk: threadkeep.Threadkeep, talk: Talk):
        """Going back may be another way that the user tries: nothing tells, so other threads know both ways."""
        await talk.say(CAT)
        history = [one async for one in talk.agent.aget_state_history(tk.config(user_id=ANA, thread_id="t"))]
        await talk.say(DOG, checkpoint_id=history[-1].config["configurable"]["checkpoint_id"])

        assert await talk.knows("another") == {"Minka", "Bello"}


class TestForked:
    """A thread that was copied from another, in whole or until a checkpoint, is a thread of its own."""

    async def test_it_knows_what_other_threads_know(self, tk: threadkeep.Threadkeep, talk: Talk):
        fork = await talk.say(GREETING)
        await talk.say(CAT)

        await tk.threads.fork("t", "forked", checkpoint_id=fork, owner=ANA)

        assert await talk.knows("forked") == {"Minka"}

    async def test_it_has_branches_of_its_own(self, tk: threadkeep.Threadkeep, talk: Talk):
        fork = await talk.say(GREETING)
        await talk.say("We go by train.")
        await tk.threads.copy("t", "copied", owner=ANA)
        before = await talk.say("We leave at noon.", thread_id="copied")
        old = await talk.say(CAT, thread_id="copied")
        new = await talk.say(DOG, thread_id="copied", checkpoint_id=before)

        assert await talk.knows("copied", old) == {"Minka"}
        assert await talk.knows("copied", new) == {"Bello"}
        assert await talk.knows("t", fork) == {"Minka", "Bello"}

    async def test_pruning_leaves_the_branches_as_they_are(self, tk: threadkeep.Threadkeep, talk: Talk):
        fork = await talk.say(GREETING)
        await talk.say(CAT)
        await talk.say(DOG, checkpoint_id=fork)

        pruned = await tk.threads.prune(["t"], owner=ANA, latest=1)

        assert pruned[0].removed > 0
        assert await talk.knows() == {"Bello"}


class TestGoOn:
    async def test_a_thread_that_was_shortened_knows_all_of_it(self, talk: Talk):
        """What compaction took out of the state was said on the way to it."""
        await talk.say(CAT)
        await talk.say("We go by train.")
        newest = await talk.say("It leaves at noon.")
        state = await talk.agent.aget_state(talk.tk.config(user_id=ANA, thread_id="t"))
        shortened = [*state.values["messages"][-2:], HumanMessage(ASKED, id="asked")]

        recall = await talk.tk.recall(shortened, owner=ANA, thread_id="t")

        assert newest
        assert "Minka" in recall.text

    async def test_the_same_words_again_where_a_shortened_thread_begins(self, tk: threadkeep.Threadkeep):
        """They were said before the facts, too; that does not make the second time the first."""
        thread = [
            message
            for number, text in enumerate((GREETING, CAT, DOG, GREETING, "By train."))
            for message in (HumanMessage(text, id=f"m{number}"), AIMessage("I see.", id=f"r{number}"))
        ]
        for end in (2, 4, 6):
            await tk.capture(thread[:end], owner=ANA, thread_id="t", wait=True)
        shortened = thread[6:]
        await tk.capture(shortened, owner=ANA, thread_id="t", wait=True)

        recall = await tk.recall([*shortened, HumanMessage(ASKED, id="asked")], owner=ANA, thread_id="t")

        assert "Minka" in recall.text
        assert "Bello" in recall.text

    async def test_repeated_reply_leaves_no_caller_waiting(self, tk: threadkeep.Threadkeep):
        """The user's words are the same, so what they taught holds on both ways."""
        asked = [HumanMessage(GREETING, id="m0"), AIMessage("Where to?", id="r0"), HumanMessage(CAT, id="m1")]
        for reply in ("Nice.", "What a name!"):
            await tk.capture([*asked, AIMessage(reply, id=reply)], owner=ANA, thread_id="t", wait=True)
        later = [HumanMessage("By train.", id="m2"), AIMessage("Good.", id="r2")]
        again = AIMessage("What a name!", id="What a name!")
        await tk.capture([*asked, again, *later], owner=ANA, thread_id="t", wait=True)

        recall = await tk.recall([*later, HumanMessage(ASKED, id="m3")], owner=ANA, thread_id="t")

        assert "Minka" in recall.text

    async def test_a_program_that_shows_the_newest_turn_only(self, tk: threadkeep.Threadkeep):
        for number, text in enumerate((CAT, "We go by train.", DOG)):
            turn = [HumanMessage(text, id=f"m{number}"), AIMessage("I see.", id=f"r{number}")]
            await tk.capture(turn, owner=ANA, thread_id="t", wait=True)

        recall = await tk.recall([HumanMessage(ASKED, id="asked")], owner=ANA, thread_id="t")

        assert "Minka" in recall.text
        assert "Bello" in recall.text
