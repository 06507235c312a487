"""Memories as values, and the rules by which they change and are forgotten."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from threadkeep.errors import ApprovalRequiredError, InvalidInputError
from threadkeep.ids import MemoryId, MessageId, ProposalId, ThreadId, TurnId
from threadkeep.memories.kinds import Kind
from threadkeep.memories.labels import Metadata, Scalar, have
from threadkeep.text.facts import clauses
from threadkeep.text.semantics import Gist, gist_of, normalised, same_meaning, same_words, signature
from threadkeep.text.sentences import split_sentences

if TYPE_CHECKING:
    from threadkeep.memories.audited_writer import AuditEntry


Status: TypeAlias = Literal["active", "proposed", "rejected", "merged", "archived"]
Speaker: TypeAlias = Literal["user", "assistant", "agent", "tool", "document", "import"]

MAX_NAME_CHARACTERS: Final = 1_000

ASKED: Final = "Asked: "
"""The beginning of the text of an episode about a question or a wish of the user's."""
SAID: Final = "Said: "
"""How any other one does that is in the user's own words."""

TRUST: Final[tuple[Speaker, ...]] = ("user", "import", "assistant", "agent", "document", "tool")
"""Speakers by trust, the most trusted first: the user, then an import by the operator, then what others wrote."""
TRUSTED: Final[frozenset[Speaker]] = frozenset({"user", "import"})
"""Speakers of statements that are kept without an approval."""


def needs_approval(kind: Kind, speaker: Speaker) -> bool:
    """Return whether statements of *kind* with *speaker* as their least trusted source are kept only with approval."""
    return kind == "procedural" or speaker not in TRUSTED


@dataclass(frozen=True, slots=True)
class Source:
    """Where a statement was made.

    Attributes:
        speaker: Who made it.
        thread_id: In which thread; ``None`` outside one.
        message_id: In which message; ``None`` where messages carry no ids.
        turn_id: In which turn.
        at: When; ``None`` where that is not known.
        author: In a shared scope, the label of the user who said it; ``None`` elsewhere.
    """

    speaker: Speaker
    thread_id: ThreadId | None = None
    message_id: MessageId | None = None
    turn_id: TurnId | None = None
    at: datetime | None = None
    author: str | None = None


def least_trusted(sources: Iterable[Source], *, otherwise: Speaker = "user") -> Speaker:
    """Return the speaker of *sources* that is believed least; *otherwise* where there is no source."""
    speakers = {source.speaker for source in sources}
    least = otherwise
    for speaker in TRUST:
        least = speaker if speaker in speakers else least
    return least


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's approval of a statement that is not kept by itself.

    Attributes:
        by: Who: a person as the application names them, ``user`` (it was said again by them) or ``policy``.
        at: When.
        proposal_id: The proposal that was decided; ``None`` where a policy let it pass at once.
    """

    by: str
    at: datetime
    proposal_id: ProposalId | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """What a memory said before it was corrected or updated.

    Attributes:
        text: The old statement.
        valid_from: From when it was true, as far as known.
        valid_to: Until when.
        replaced_at: When the newer statement took its place.
        sources: Where the old one came from.
        approval: The approval of the old one, if it had one.
    """

    text: str
    valid_from: datetime | None
    valid_to: datetime | None
    replaced_at: datetime
    sources: tuple[Source, ...] = ()
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """Why a memory was laid aside.

    Attributes:
        at: When.
        reason: ``inactive``: it was not used for too long; ``budget``: there were too many.
        used_at: When it was used last, as far as known.
    """

    at: datetime
    reason: Literal["inactive", "budget"]
    used_at: datetime


@dataclass(frozen=True, slots=True)
class Memory:
    """One short statement about an owner.

    Attributes:
        memory_id: Its key.
        namespace: Where it is kept, as LangGraph sees it.
        text: The statement; 1–8,000 characters.
        kind: ``semantic`` (a fact), ``episodic`` (what happened), ``procedural`` (how to behave), or one of the
            application's.
        status: ``active`` ones are recalled; a ``merged`` one is held by another memory, an ``archived`` one was not
            used or was one too many; both go in time.
        trust: The least trusted speaker in its lineage.
        sources: Everywhere it was said, oldest first.
        revision: Give it back to change exactly what was read.
        created_at: When it was learnt.
        updated_at: When it was last changed.
        valid_from: From when it is true; ``None``: not known.
        valid_to: Until when it was true; ``None``: it still is.
        pinned: Never expires, and is recalled first among equals.
        history: What it said before, oldest first.
        derived_from: Memories that it was made of.
        approval: Who approved it, where that was needed or done; such a memory does not expire.
        merged_into: The memory that says the same and is recalled in its place.
        archived: When and why it was laid aside, where it was.
        tags: Words of the application's, each once.
        metadata: Names and values of the application's: strings, numbers, truth values or ``None``.
    """

    memory_id: MemoryId
    namespace: tuple[str, ...]
    text: str
    kind: Kind
    status: Status
    trust: Speaker
    sources: tuple[Source, ...]
    revision: int
    created_at: datetime
    updated_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    pinned: bool = False
    history: tuple[Version, ...] = ()
    derived_from: tuple[MemoryId, ...] = ()
    approval: Approval | None = None
    merged_into: MemoryId | None = None
    archived: Archived | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)

    def taught_by(self, turn_id: str) -> Taught | None:
        """Return what a turn said of this memory; ``None``: no version of it comes from the turn."""
        before: str | None = None
        for text, sources in (*((old.text, old.sources) for old in self.history), (self.text, self.sources)):
            turns = [source.turn_id for source in sources]
            if turn_id in turns:
                if turns[0] != turn_id:
                    return Taught("known", text)
                return Taught("new", text) if before is None else Taught("changed", text, before)
            before = text
        return None

    def __repr__(self) -> str:
        """Return kind, text and id on one line."""
        return f"<Memory {self.memory_id[:8]} {self.kind}: {shortened(self.text)!r}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return html_table(("memory", "kind", "since", "id"), [self.html_row()])

    def html_row(self) -> tuple[str, ...]:
        """Return the cells of this memory in a table for notebooks."""
        return self.text, self.kind, f"{self.created_at:%Y-%m-%d}", self.memory_id[:8]


class MemoryPage(list[Memory]):
    """A part of an owner's memories, most recently changed first.

    Attributes:
        cursor: What to pass to ``list`` for the next page; ``None``: this is the last one.
    """

    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Taught:
    """What a turn said of a memory.

    Attributes:
        change: ``new``: the memory began with it; ``changed``: it replaced another statement; ``known``: the memory
            said it already.
        text: What the memory says since.
        before: What it said before, where that was changed.
    """

    change: Literal["new", "changed", "known"]
    text: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which memories are listed; ``None`` leaves a part out.

    Attributes:
        kind: Their kind.
        trust: Their least trusted speaker.
        thread_id: A thread in which they were said.
        pinned: Whether they are pinned.
        since: When they were changed at the earliest.
        tags: Tags that they all have.
        any_tags: Tags of which they have one at least.
        metadata: Names that they have with these values.
    """

    kind: Kind | None = None
    trust: Speaker | None = None
    thread_id: str | None = None
    pinned: bool | None = None
    since: datetime | None = None
    tags: frozenset[str] = frozenset()
    any_tags: frozenset[str] = frozenset()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)

    def matches(self, memory: Memory) -> bool:
        """Return whether *memory* is one of them."""
        return (
            self.kind in (None, memory.kind)
            and self.trust in (None, memory.trust)
            and self.pinned in (None, memory.pinned)
            and (self.since is None or memory.updated_at >= self.since)
            and (self.thread_id is None or any(one.thread_id == self.thread_id for one in memory.sources))
            and self.tags.issubset(memory.tags)
            and (not self.any_tags or not self.any_tags.isdisjoint(memory.tags))
            and have(memory.metadata, self.metadata)
        )


EVERY: Final = MemoryFilter()
"""All memories."""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A statement to be kept.

    Attributes:
        text: The statement; 1–8,000 characters.
        kind: See :class:`Memory`.
        sources: Where it was said; empty: by the user, outside any thread.
        created_at: When it was learnt; ``None``: now.
        valid_from: From when it is true.
        valid_to: Until when it was true; such a memory is kept and not recalled.
        pinned: See :class:`Memory`.
        memory_id: Its key; ``None``: a new one. An existing memory with this key is left as it is.
        approval: Who approved it; needed where not only the user or an import stands behind it.
        history: What it said before, oldest first, where it is moved in.
        tags: See :class:`Memory`; at most 32 of 64 characters.
        metadata: See :class:`Memory`; at most 32 names.
    """

    text: str
    kind: Kind = "semantic"
    sources: tuple[Source, ...] = ()
    created_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    pinned: bool = False
    memory_id: MemoryId | None = None
    approval: Approval | None = None
    history: tuple[Version, ...] = ()
    tags: Sequence[str] = ()
    metadata: Metadata = field(default_factory=dict[str, Scalar], hash=False)


@dataclass(frozen=True, slots=True)
class RememberResult:
    """What became of a statement that was to be kept.

    Attributes:
        status: ``accepted``: *memory* is new; ``duplicate``: *memory* said it already; ``proposed``: it
            waits for an approval; ``rejected``: it must not be kept.
        memory: The memory that holds it now; of a proposal, the one that it becomes when it is approved.
        degraded: What was missing: ``("embedder",)`` when it can be found by its words only, until the embedder
            answers again.
        proposal_id: What to approve or reject, where it is proposed.
        reason: Why it waits, or why it was rejected.
        lifted: Tombstones that are gone: the statement was forgotten or rejected before, and is remembered again.
    """

    status: Literal["accepted", "duplicate", "proposed", "rejected"]
    memory: Memory
    degraded: tuple[str, ...] = ()
    proposal_id: ProposalId | None = None
    reason: str | None = None
    lifted: tuple[str, ...] = ()

    @property
    def memory_id(self) -> MemoryId:
        """The memory's key."""
        return self.memory.memory_id


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed with a statement, and what still holds it.

    Attributes:
        memory_ids: The memory, and what was derived from it or said the same.
        turn_ids: Turn records that were emptied of their texts.
        still_in: Messages of threads that hold the statement; delete the thread to remove them.
    """

    memory_ids: tuple[MemoryId, ...]
    turn_ids: tuple[TurnId, ...]
    still_in: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why something is remembered.

    Attributes:
        memory: The memory: what it says, who said that where and when (``sources``), and who approved it.
        derived_from: The memories that it was made of, as far as they are there.
        merged: The memories that say the same and gave way to it.
        told: What was changed of it, oldest first: when, by whom and where that came from.
        used_at: When it was recalled or found last, coarsely; ``None``: not known, or never.
    """

    memory: Memory
    derived_from: tuple[Memory, ...]
    merged: tuple[Memory, ...]
    told: tuple[AuditEntry, ...]
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Undone:
    """What was undone.

    Attributes:
        numbers: The audit entries that were undone, newest first.
        memory_ids: Memories that are as they were before.
        removed: Memories that were not there before, and are gone.
        left: Ids of memories that could not be undone, with the reason.
    """

    numbers: tuple[int, ...]
    memory_ids: tuple[MemoryId, ...]
    removed: tuple[MemoryId, ...]
    left: Mapping[str, str]


def checked_name(text: object, argument: str) -> str:
    """Return *text*, the name of a person or a key, without white space at its ends.

    Raises:
        InvalidInputError: It is not a string, empty, or longer than 1,000 characters.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_NAME_CHARACTERS:
        msg = f"{argument} must be a string of 1 to {MAX_NAME_CHARACTERS} characters."
        raise InvalidInputError(msg)
    return text.strip()


_WORDS: Final = re.compile(r"\w+")
_HOLDS: Final = 0.6
_turn_of: Final = attrgetter("turn_id")
_SPEAKERS: Final[Mapping[Speaker, str]] = {
    "user": "a user",
    "import": "an import",
    "assistant": "an assistant",
    "agent": "another agent",
    "document": "a document",
    "tool": "a tool",
}


def corrected(memory: Memory, text: str, *, source: Source, at: datetime, approval: Approval | None) -> Memory:
    """Return *memory* saying *text* from *at* on, with what it said before, and who approved that, in its history."""
    old = Version(memory.text, memory.valid_from, memory.valid_to or at, at, memory.sources, memory.approval)
    return replace(
        memory,
        text=text,
        trust=source.speaker,
        sources=(source,),
        valid_from=at,
        valid_to=None,
        history=(*memory.history, old),
        approval=approval,
    )


def shortened(text: str, *, width: int = 80) -> str:
    """Return *text* on one line of at most *width* characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; every text is escaped."""
    lines = ["".join(f"<th>{escape(head)}</th>" for head in heads)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def recallable(memory: Memory) -> bool:
    """Return whether *memory* is active and, as far as known, still true."""
    return memory.status == "active" and memory.valid_to is None


def lacks_approval(kind: Kind, speaker: Speaker, approval: Approval | None, *, shared: bool = False) -> bool:
    """Return whether :func:`require_approval` refuses a statement."""
    return approval is None and (shared or needs_approval(kind, speaker))


def require_approval(kind: Kind, speaker: Speaker, approval: Approval | None, *, shared: bool = False) -> None:
    """Check that a statement is approved, or that its kind and its least trusted *speaker* need no approval.

    Args:
        kind: The kind of the statement.
        speaker: Its least trusted speaker.
        approval: Its approval.
        shared: Whether it is about a scope that users share: there, every statement needs an approval.

    Raises:
        ApprovalRequiredError: It needs an approval and has none.
    """
    if not lacks_approval(kind, speaker, approval, shared=shared):
        return
    if shared:
        msg = "What a shared scope remembers waits for approval: propose it by tk.scopes, or name who approved it."
        raise ApprovalRequiredError(msg, speaker=speaker)
    what = "How to behave is always asked: it" if kind == "procedural" else "A statement that"
    who = "" if kind == "procedural" else f" {_SPEAKERS[speaker]} stands behind"
    msg = f"{what}{who} waits for approval; propose it by tk.proposals.propose(), or name who approved it."
    raise ApprovalRequiredError(msg, speaker=speaker)


def goes_with(memory: Memory, everything: Iterable[Memory]) -> list[Memory]:
    """Return what has to go when *memory* is forgotten: itself first.

    That is what was derived from it, directly or not; what says the very same now; and episodes of
    its turns that hold most of its words, now or in its history, and nothing else (see :func:`without_sentences`).
    """
    rest = [known for known in everything if known.memory_id != memory.memory_id]
    statements = [memory.text, *[old.text for old in memory.history]]
    said = set(map(same_words, statements))
    vocabularies = list(map(_vocabulary, statements))
    turns = {source.turn_id for source in sources_in([memory])} - {None, ""}
    says = matcher_of(statements)

    def holds(passage: str) -> bool:
        left = without_sentences(passage, says)
        return not left or any(_holds(left, words) for words in vocabularies)

    repeating: set[MemoryId] = set()
    for known in rest:
        of_its_turns = known.kind == "episodic" and not turns.isdisjoint(map(_turn_of, known.sources))
        if same_words(known.text) in said or (of_its_turns and holds(known.text)):
            repeating.add(known.memory_id)
    gone = {memory.memory_id: memory}
    grew = True
    while grew:
        grew = False
        for known in rest:
            if known.memory_id in gone:
                continue
            derived = known.merged_into in gone or not gone.keys().isdisjoint(known.derived_from)
            if derived or known.memory_id in repeating:
                gone[known.memory_id] = known
                grew = True
    return list(gone.values())


_SPEAKER: Final = re.compile(r"^[-*•]?\s?(?:the\s)?[A-Za-z][\w ]{0,30}:\s", re.IGNORECASE)


def sentences_in(passage: str) -> list[str]:
    """Return the sentences of an episode or a summary, without what it begins with."""
    said = passage.removeprefix(ASKED).removeprefix(SAID)
    return [sentence for line in said.splitlines() for sentence in split_sentences(line)]


def without_sentences(passage: str, says: Callable[[str], bool]) -> str:
    """Return an episode or a summary without the sentences of which *says* is true, or is true of a clause of theirs.

    Returns:
        The passage as it was if there are none; empty if nothing is left.
    """
    sentences = sentences_in(passage)
    left = [one for one in sentences if not any(map(says, _parts(one)))]
    if len(left) == len(sentences):
        return passage
    lead = next((lead for lead in (ASKED, SAID) if passage.startswith(lead)), "")
    return f"{lead}{' '.join(left)}" if left else ""


def _parts(sentence: str) -> Iterable[str]:
    """Return *sentence* and its clauses, also without the speaker that a summary names before it."""
    said = _SPEAKER.sub("", sentence)
    return dict.fromkeys((sentence, said, *clauses(said)))


def matcher_of(statements: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that returns whether a text says the same as one of *statements*."""
    gists: list[Gist] = [gist_of(statement) for statement in statements]
    same = {normalised(statement) for statement in statements}

    return lambda text: normalised(text) in same or any(map(same_meaning, repeat(gist_of(text)), gists))


def distinct(memories: Sequence[Memory]) -> list[Memory]:
    """Return *memories* without what others of them say already, or have corrected.

    Of two that say the same, the newer one stays. Episodes and summaries lose the sentences that a fact says or said
    before it was corrected, and go if nothing is left of them.
    """
    facts = [memory for memory in memories if memory.kind != "episodic"]
    said = {signature(text) for memory in facts for text in (memory.text, *(old.text for old in memory.history))}
    kept: list[Memory] = []
    seen: set[frozenset[str]] = set()
    for memory in sorted(memories, key=lambda one: one.created_at, reverse=True):
        text = memory.text
        if memory.kind == "episodic":
            text = without_sentences(text, lambda part: signature(part) in said)
        key = signature(text)
        if text and key not in seen:
            seen.add(key)
            kept.append(memory if text == memory.text else replace(memory, text=text))
    return kept


def statements_of(memories: Sequence[Memory]) -> tuple[str, ...]:
    """Return what *memories* say and said, each once; an episode is a statement of each sentence, beside no fact."""
    stated: dict[str, None] = {}
    for memory in memories:
        if memory.kind != "episodic":
            stated |= dict.fromkeys((memory.text, *[old.text for old in memory.history]))
    if not stated:
        for memory in memories:
            stated |= dict.fromkeys(sentences_in(memory.text))
    return tuple(stated)


def sources_in(memories: Iterable[Memory]) -> tuple[Source, ...]:
    """Return everywhere that *memories* were said, now and before, each once."""
    sources: dict[Source, None] = {}
    for memory in memories:
        for version in (memory, *memory.history):
            sources |= dict.fromkeys(version.sources)
    return tuple(sources)


def messages_of(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return one source for each message of a thread."""
    return tuple({(s.thread_id, s.message_id, s.speaker): s for s in reversed(sources) if s.thread_id}.values())


def _vocabulary(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(unicodedata.normalize("NFKC", text).casefold()))


def _holds(text: str, words: frozenset[str]) -> bool:
    return bool(words) and len(words & _vocabulary(text)) >= _HOLDS * len(words)
