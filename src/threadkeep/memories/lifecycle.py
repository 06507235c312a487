"""How a memory changes, and what goes when it is forgotten: pure rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from threadkeep.errors import ApprovalRequiredError
from threadkeep.memories.models import Approval, Kind, Memory, Source, Speaker, Version, is_asked
from threadkeep.text.normalization import same_words

_WORDS: Final = re.compile(r"\w+")
_HOLDS: Final = 0.6
_SPEAKERS: Final[Mapping[Speaker, str]] = {
    "user": "a user",
    "import": "an import",
    "assistant": "an assistant",
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


def recallable(memory: Memory) -> bool:
    """Return whether *memory* is active and, as far as known, still true."""
    return memory.status == "active" and memory.valid_to is None


def require_approval(kind: Kind, speaker: Speaker, approval: Approval | None) -> None:
    """Check that a statement is approved, or that its kind and its least trusted *speaker* need no approval.

    Raises:
        ApprovalRequiredError: It needs an approval and has none.
    """
    if approval is not None or not is_asked(kind, speaker):
        return
    what = "How to behave is always asked: it" if kind == "procedural" else "A statement that"
    who = "" if kind == "procedural" else f" {_SPEAKERS[speaker]} stands behind"
    msg = f"{what}{who} waits for approval; propose it by tk.proposals.propose(), or name who approved it."
    raise ApprovalRequiredError(msg, speaker=speaker)


def goes_with(memory: Memory, everything: Iterable[Memory]) -> list[Memory]:
    """Return what has to go when *memory* is forgotten: itself first.

    That is what was derived from it, directly or not; what says the very same now; and episodes of
    its turns that hold most of its words, now or in its history.
    """
    rest = [known for known in everything if known.memory_id != memory.memory_id]
    statements = [memory.text, *(old.text for old in memory.history)]
    said = {same_words(text) for text in statements}
    vocabularies = [_vocabulary(text) for text in statements]
    turns = {s.turn_id for s in _sources(memory) if s.turn_id}
    gone = {memory.memory_id: memory}
    grew = True
    while grew:
        grew = False
        for known in rest:
            if known.memory_id in gone:
                continue
            derived = any(parent in gone for parent in known.derived_from) or known.merged_into in gone
            same = same_words(known.text) in said
            episode = known.kind == "episodic" and any(s.turn_id in turns for s in known.sources)
            if derived or same or (episode and any(_holds(known.text, words) for words in vocabularies)):
                gone[known.memory_id] = known
                grew = True
    return list(gone.values())


def statements_of(memories: Sequence[Memory]) -> tuple[str, ...]:
    """Return what *memories* say and said, each once; an episode tells of a turn and is no statement beside others."""
    facts = [memory for memory in memories if memory.kind != "episodic"] or memories
    return tuple(dict.fromkeys(text for m in facts for text in (m.text, *(old.text for old in m.history))))


def sources_in(memories: Iterable[Memory]) -> tuple[Source, ...]:
    """Return everywhere that *memories* were said, now and before, each once."""
    return tuple(dict.fromkeys(source for memory in memories for source in _sources(memory)))


def messages_of(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return one source for each message of a thread."""
    return tuple({(s.thread_id, s.message_id, s.speaker): s for s in reversed(sources) if s.thread_id}.values())


def _sources(memory: Memory) -> Iterable[Source]:
    yield from memory.sources
    for old in memory.history:
        yield from old.sources


def _vocabulary(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(unicodedata.normalize("NFKC", text).casefold()))


def _holds(text: str, words: frozenset[str]) -> bool:
    return bool(words) and len(words & _vocabulary(text)) >= _HOLDS * len(words)
