"""What search and recall give back, and how recalled memories stand before the model: as data, one escaped line each.

Two forms. The block quotes every statement, so that no text can pass for a line of its own, for the
heading or for the end. The bullets are the form of a system message, for applications that ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from threadkeep.identity import MARK, scope_in
from threadkeep.ids import ThreadId
from threadkeep.memories.codec import SUMMARIES
from threadkeep.memories.models import ASKED, SAID, Memory, Source, Speaker, html_table, shortened
from threadkeep.text.quoted import BULLETS_HEADING, one_line, quote, to_block

SUMMARIES_HEADING: Final = "[Previous Conversation Summaries]"
MEMORIES_HEADING: Final = "[User Memories]"

_SAID: Final[Mapping[Speaker, str]] = {
    "assistant": "said by the assistant",
    "agent": "said by another agent",
    "tool": "from a tool",
    "document": "from a document",
    "import": "imported",
}


def render_block(memories: Sequence[Memory], *, thread_id: ThreadId | None = None) -> str:
    r"""Render *memories* as the block for the model; nothing for none.

    A heading that says what follows is data, a line for each memory and an end line::

        - "I am allergic to peanuts." (2026-11-20)
        - "The cluster has 12 nodes." (2026-11-21, from a tool, this thread)

    Quotes, backslashes and whatever could break or turn a line (controls, line separators,
    directional and invisible characters, lone surrogates) are written as ``\"`` or ``\uXXXX``.

    Args:
        memories: In the order they shall stand.
        thread_id: The thread that is going on; what was said there is said to be from it.
    """
    return to_block([line(Recalled(memory, 0.0), thread_id=thread_id) for memory in memories])


def line(recalled: Recalled, *, thread_id: ThreadId | None = None) -> str:
    """Render one memory as a line of the block, without the line break.

    A passage of a turn is in the user's own words, as the heading says of everything that is not marked.
    What most have in common stands in the heading once, so that more statements fit a budget:
    in a block of 300 tokens they are 13 instead of 8. Which thread a statement is from is of use
    to people, who find it with the memory, and not to a model.

    Args:
        recalled: The memory. If it stands for a slot of the profile, the line has the slot in place of the date.
        thread_id: The thread that is going on.
    """
    memory = recalled.memory
    if recalled.slot is not None:
        earlier = ", earlier" if recalled.earlier else ""
        return f"- {quote(recalled.value or memory.text)} ({recalled.slot}{earlier})"
    source = memory.sources[-1] if memory.sources else Source(memory.trust)
    at = source.at or memory.created_at
    own_words = memory.kind == "episodic" and memory.text.startswith((SAID, ASKED))
    here = source.thread_id is not None and source.thread_id == thread_id
    label = memory.namespace[1] if memory.namespace[1:] else ""
    scope = scope_in(memory.namespace) if label[:4] == MARK else None
    shared = None if scope is None else f"{scope.kind} {one_line(scope.user_id)}"
    marks = (
        shared,
        "procedure" if memory.kind == "procedural" else None,
        "summary" if memory.namespace[:1] == (SUMMARIES,) else _SAID.get(memory.trust),
        "this thread" if here else None,
    )
    before = ("earlier", "may still hold")[: recalled.earlier + recalled.may_hold]
    text = memory.text.removeprefix(SAID) if own_words else memory.text
    return f"- {quote(text)} ({', '.join((*before, at.date().isoformat(), *filter(None, marks)))})"


def memory_context_text(memories: Sequence[Memory], *, max_chars: int = 900) -> str:
    """Render *memories* as one system message: facts with ``•``, then episodes with ``–``.

    Best first; a statement that would pass *max_chars* is left out whole, and a shorter one after it
    may still stand. Nothing for none.
    """
    room = max_chars - len(BULLETS_HEADING)
    facts: list[str] = []
    episodes: list[str] = []
    for memory in memories:
        episode = memory.kind == "episodic"
        bullet = f"{'–' if episode else '•'} {one_line(memory.text)}"
        if len(bullet) + 1 > room:
            continue
        room -= len(bullet) + 1
        (episodes if episode else facts).append(bullet)
    return "\n".join((BULLETS_HEADING, *facts, *episodes)) if facts or episodes else ""


def cross_thread_context(summaries: Sequence[str], memories: Sequence[str]) -> str:
    """Render what a new thread begins with: summaries and memories under a heading each; nothing for none."""
    parts = (
        "\n".join((heading, *(f"- {one_line(text)}" for text in texts)))
        for heading, texts in ((SUMMARIES_HEADING, summaries), (MEMORIES_HEADING, memories))
        if texts
    )
    return "\n\n".join(parts)


def put_before(messages: Sequence[Any], text: str) -> list[Any]:
    """Return *messages* with *text* in front of the newest human message's content, on a copy of it."""
    changed = list(messages)
    if not text:
        return changed
    for place in range(len(changed) - 1, -1, -1):
        if _is_human(changed[place]):
            changed[place] = _with_text(changed[place], text)
            break
    return changed


def _is_human(message: object) -> bool:
    if isinstance(message, str):
        return True  # LangChain takes a bare text for the user's
    if isinstance(message, tuple):
        return cast("tuple[object, ...]", message)[:1] in (("user",), ("human",))
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, object]", message)
        return fields.get("role", fields.get("type")) in ("user", "human")
    extra = cast("Mapping[str, object]", getattr(message, "additional_kwargs", None) or {})
    return getattr(message, "type", None) == "human" and not extra.get("lc_source")


def _with_text(message: Any, text: str) -> Any:
    if isinstance(message, str):
        return _in_front(message, text)
    if isinstance(message, tuple):
        role, content = cast("tuple[str, Any]", message)
        return (role, _in_front(content, text))
    if isinstance(message, Mapping):
        fields = dict(cast("Mapping[str, Any]", message))
        return {**fields, "content": _in_front(fields.get("content", ""), text)}
    return message.model_copy(update={"content": _in_front(message.content, text)})


def _in_front(content: Any, text: str) -> Any:
    if isinstance(content, list):
        return [{"type": "text", "text": f"{text}\n"}, *cast("list[Any]", content)]
    return f"{text}\n\n{content}"


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that matters for a question.

    Attributes:
        memory: The memory.
        score: In [0, 1], higher is closer; 0 where nothing was asked.
        earlier: Whether a newer memory says that it is no longer so.
        slot: The slot of the profile that it fills, if it stands in the block for that.
        value: What it says of the slot.
        may_hold: Whether an earlier one may still be so: the newer one may say something else.
    """

    memory: Memory
    score: float
    earlier: bool = False
    slot: str | None = None
    value: str | None = None
    may_hold: bool = False

    @property
    def text(self) -> str:
        """What the memory says."""
        return self.memory.text

    def __repr__(self) -> str:
        """Return score and text on one line."""
        return f"<Recalled {self.score:.2f} {shortened(self.text)!r}{' (earlier)' if self.earlier else ''}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return _table([self])


@dataclass(frozen=True, slots=True)
class Recall:
    """What is remembered before a model call.

    Attributes:
        memories: Best first.
        text: The block for the model; empty where nothing matters.
        degraded: What was missing: ``embedder`` or ``vectors`` (compared by words only), ``reranker`` (in the order
            before it), ``storage`` (nothing read), ``timeout`` (nothing read in time).
        tokens: Estimate of the block's length in model tokens.
        left_out: Memories that matter, too, and did not fit into the block, best first; at most 10.
    """

    memories: tuple[Recalled, ...] = ()
    text: str = ""
    degraded: tuple[str, ...] = ()
    tokens: int = 0
    left_out: tuple[Recalled, ...] = ()

    def __repr__(self) -> str:
        """Return how much was recalled on one line."""
        missing = f", degraded: {', '.join(self.degraded)}" if self.degraded else ""
        return f"<Recall of {len(self.memories)} memories, {self.tokens} tokens{missing}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return _table(self.memories)

    def into(self, messages: Sequence[Any]) -> list[Any]:
        """Return *messages* with the block in front of the newest human message's content.

        Neither the list nor any message in it is changed. Takes LangChain messages, ``{"role",
        "content"}`` and ``("user", text)``; where there is no block or no human message, the list is
        as it was.
        """
        return put_before(messages, self.text)


def _table(recalled: Sequence[Recalled]) -> str:
    rows = [(f"{one.score:.2f}", *one.memory.html_row()) for one in recalled]
    return html_table(("score", "memory", "kind", "since", "id"), rows)
