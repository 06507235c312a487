"""Conversations of two people, said again to an agent: one is the user, the other one's words are the replies.

Every session is a thread of a real graph with middleware and checkpointer, at the time at which it was
held, so what is kept afterwards is what the product would have kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.text.quoted import END, HEADING
from threadkeep_evals.conversation import Conversation, Turn
from threadkeep_evals.rig import TIMEOUT

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.memories.models import Memory

_BLOCK: Final = re.compile(rf"{re.escape(HEADING)}.*?{re.escape(END)}", re.DOTALL)

SILENCE: Final = "(no reply)"
"""What the model says where the other one said nothing more in the session."""


class ReplayClock:
    """Says when the turn that is said again was said.

    Attributes:
        at: The moment; it only moves on.
    """

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        """Return the moment of the conversation."""
        return self.at

    def move(self, to: datetime) -> None:
        """Move on to *to*, never back."""
        self.at = max(self.at, to)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One input to the agent and its reply.

    Attributes:
        session: The session that it is of.
        at: When the user began.
        opening: What the other one said before the user's first words of the session; else empty.
        said: The user's turns, in order.
        reply: What the model says.
    """

    session: int
    at: datetime
    opening: str
    said: tuple[Turn, ...]
    reply: str


def exchanges(conversation: Conversation, speaker: str) -> tuple[Exchange, ...]:
    """Part *conversation* into inputs of *speaker* and replies of the other.

    Raises:
        InvalidInputError: No speaker has that name.
    """
    if speaker not in conversation.speakers:
        msg = f"{speaker[:80]!r} does not speak in {conversation.conversation_id}; {_listed(conversation.speakers)} do."
        raise InvalidInputError(msg)
    found: list[Exchange] = []
    for session in dict.fromkeys(turn.session for turn in conversation.turns):
        of_session = [turn for turn in conversation.turns if turn.session == session]
        found += _of_session(of_session, speaker)
    return tuple(found)


def _of_session(turns: Sequence[Turn], speaker: str) -> Iterator[Exchange]:
    place = 0
    while place < len(turns):
        opening, place = _run(turns, place, own=False, speaker=speaker)
        said, place = _run(turns, place, own=True, speaker=speaker)
        replied, after = _run(turns, place, own=False, speaker=speaker)
        spoken = tuple(turn for turn in said if turn.words)  # a photo without a word is nothing that was said
        if spoken:
            yield Exchange(spoken[0].session, spoken[0].at, _joined(opening), spoken, _joined(replied) or SILENCE)
        place = after


def _run(turns: Sequence[Turn], place: int, *, own: bool, speaker: str) -> tuple[list[Turn], int]:
    """Return the turns from *place* on that are *speaker*'s own, or another's, and where they end."""
    end = place
    while end < len(turns) and (turns[end].speaker == speaker) == own:
        end += 1
    return list(turns[place:end]), end


def _joined(turns: Sequence[Turn]) -> str:
    return "\n".join(turn.words for turn in turns if turn.words)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


async def replay(
    tk: Threadkeep,
    conversation: Conversation,
    speaker: str,
    *,
    user_id: str,
    clock: ReplayClock,
    step: Any = lambda: None,
) -> tuple[Exchange, ...]:
    """Say *speaker*'s side of *conversation* to a graph, session by session, and learn from every turn.

    Args:
        tk: Opened with *clock*.
        conversation: What was said.
        speaker: Who is the user.
        user_id: The owner of the memories.
        clock: Is moved to when each turn was said.
        step: Called after every exchange.

    Returns:
        What was said to the graph.
    """
    from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - a saver of any version

    from threadkeep.testing.models import ScriptedModel

    said = exchanges(conversation, speaker)
    model = ScriptedModel(replies=[exchange.reply for exchange in said])
    agent: Any = create_agent(model, [], middleware=[tk.middleware(timeout=TIMEOUT)], checkpointer=tk.checkpointer)
    for exchange in said:
        clock.move(exchange.at)
        config = tk.config(user_id=user_id, thread_id=thread_of(conversation, speaker, exchange.session))
        await agent.ainvoke({"messages": _spoken(exchange)}, config, durability="sync")
        await tk.drain()
        step()
    return said


class Asking:
    """Asks an agent with our middleware, each question on a thread of its own, and notes what its model was given.

    Args:
        tk: The memory to ask.
        budget_tokens: Upper bound of the block.
    """

    def __init__(self, tk: Threadkeep, *, budget_tokens: int) -> None:
        from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - the same

        from threadkeep.testing.models import ScriptedModel

        middleware = tk.middleware(capture=False, budget_tokens=budget_tokens, timeout=TIMEOUT)
        self._tk = tk
        self._model = ScriptedModel()
        self._agent: Any = create_agent(self._model, [], middleware=[middleware])
        self._asked = 0

    async def ask(self, question: str, *, user_id: str) -> tuple[str, int]:
        """Return the block that the model was given, and its tokens."""
        self._asked += 1
        config = self._tk.config(user_id=user_id, thread_id=f"question-{self._asked}")
        given: dict[str, Any] = {}
        said = {"messages": [{"role": "user", "content": question}]}
        async for event in self._agent.astream(said, config, stream_mode="custom"):
            if event["type"] == "recalled":
                given = event
        prompt = "\n".join(message.text for message in self._model.prompts.pop())
        block = _BLOCK.search(prompt)
        return block[0] if block else "", given["tokens"]


async def every_memory(tk: Threadkeep, user_id: str) -> list[Memory]:
    """Return every active memory of an owner."""
    return [memory async for memory in tk.memories.walk(owner=user_id) if memory.status == "active"]


def thread_of(conversation: Conversation, speaker: str, session: int) -> str:
    """Return the thread that a session becomes."""
    return f"{conversation.conversation_id}/{speaker}/session-{session}"


def _spoken(exchange: Exchange) -> list[dict[str, Any]]:
    opening = [{"role": "assistant", "content": exchange.opening}] if exchange.opening else []
    own = [{"role": "user", "content": turn.words, "id": turn.turn_id} for turn in exchange.said]
    return [*opening, *own]
