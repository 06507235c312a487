"""Conversations with questions about them: what every data set is read into."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from threadkeep.errors import InvalidInputError
from threadkeep.memories.models import Speaker

_NO_DATE: Final = 1970
"""The year of turns in files without dates."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said at one time in a conversation.

    Attributes:
        turn_id: Unique in its conversation, e.g. LoCoMo's ``D8:6``.
        session: The number of the session, from 1.
        order: Its place in the conversation, from 0.
        speaker: The name of who said it; empty where the role says enough.
        words: What was said.
        caption: What the photo shows that came with it, else an empty text.
        at: The session's date, plus a second for each turn before it.
        role: Whether the user said it or the assistant.
    """

    turn_id: str
    session: int
    order: int
    speaker: str
    words: str
    caption: str
    at: datetime
    role: Speaker = "user"

    @property
    def spoken(self) -> str:
        """The turn as ``Speaker: words``."""
        return f"{self.speaker}: {self.words}" if self.speaker else self.words

    @property
    def text(self) -> str:
        """The turn as ``Speaker: words [caption]``: all there is to find it by."""
        return f"{self.spoken} [{self.caption}]" if self.caption else self.spoken

    @property
    def dated(self) -> str:
        """The turn as ``(8 May 2023) Speaker: words [caption]``; without the date where the file has none."""
        return self.text if self.at.year <= _NO_DATE else f"({self.at.day} {self.at:%B %Y}) {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a conversation.

    Attributes:
        text: The question.
        category: As the data set numbers or names its kinds.
        evidence: Ids of the turns that answer it; empty where the file names none that exist.
        sessions: Numbers of the sessions that answer it, where the file says them; empty: those of *evidence*.
        answer: The answer in the file; empty where it has none.
        answerable: Whether the conversation has the answer. If not, saying so is right.
        asked: When the question is asked, as the file says it; empty where it does not.
    """

    text: str
    category: int | str
    evidence: frozenset[str]
    sessions: frozenset[int] = frozenset()
    answer: str = ""
    answerable: bool = True
    asked: str = ""

    @property
    def has_evidence(self) -> bool:
        """Whether the evidence is known."""
        return bool(self.evidence or self.sessions)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the data set's own people noted of a speaker.

    Attributes:
        speaker: About whom.
        text: The note, one sentence.
        turn_ids: The turns that it was taken from.
    """

    speaker: str
    text: str
    turn_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: its turns in order, the questions about it, and what was noted of its speakers."""

    conversation_id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    observations: tuple[Observation, ...] = ()

    @property
    def speakers(self) -> tuple[str, ...]:
        """Who speaks, in the order of their first words."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))

    def without_names(self, question: str) -> str:
        """Return *question* without the names of the speakers, which every turn of theirs begins with.

        A vector search finds more without them: they make all turns of the speaker alike.
        """
        names = "|".join(re.escape(name) for name in self.speakers if name)
        cut = re.sub(rf"\b(?:{names})\b(?:['’]s)?\s*", "", question) if names else question
        return cut.strip() or question


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file of conversations.

    Attributes:
        kind: Which data set it is of, as the command is called: ``locomo``, ``beam``, …
        name: The file's name.
        sha256: Digest of the file, hexadecimal.
        conversations: In the file's order.
        groups: The groups of categories that are reported, each with its categories.
        levels: What is ranked: ``turn``, ``session``.
        note: What was mended or left out, for people.
    """

    kind: str
    name: str
    sha256: str
    conversations: tuple[Conversation, ...]
    groups: Mapping[str, frozenset[int | str]]
    levels: tuple[str, ...]
    note: str

    def chosen(self, names: Sequence[str]) -> tuple[Conversation, ...]:
        """Return the conversations called *names*, in the file's order; all where none is named.

        Raises:
            InvalidInputError: One is not there; the message says which are.
        """
        known = {one.conversation_id for one in self.conversations}
        for name in names:
            if name not in known:
                there = ", ".join(one.conversation_id for one in self.conversations)
                msg = f"{self.name} has no conversation {name[:80]!r}; give --conversation one of {there}."
                raise InvalidInputError(msg)
        return tuple(one for one in self.conversations if not names or one.conversation_id in names)

    @property
    def main_group(self) -> str:
        """The group of categories that a single figure is of: the first."""
        return next(iter(self.groups))

    @property
    def summary(self) -> str:
        """What was read, in one sentence for people."""
        turns = sum(len(one.turns) for one in self.conversations)
        questions = [question for one in self.conversations for question in one.questions]
        return (
            f"{len(self.conversations)} conversations, {turns:,} turns, {len(questions):,} questions of which "
            f"{sum(question.has_evidence for question in questions):,} have evidence; {self.note}"
        )
