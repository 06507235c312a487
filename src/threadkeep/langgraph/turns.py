"""What was said in the turn that runs, for tools that a model calls: whose word it is what they are given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from threadkeep.capture.record import Message
from threadkeep.capture.support import Backing, backing
from threadkeep.memories.meaning import gist_of
from threadkeep.memories.record import Kind, Source
from threadkeep.models.langchain import plain_messages

_KEEP: Final = re.compile(
    r"""(?ix)\b(?:remember|memori[sz]e|note|save|store|keep\ in\ mind|don't\ forget|do\ not\ forget|make\ a\ note
    |merk(?:e)?\ dir|retiens|retenez|recuerda|guarda|lembre|ricorda)\b"""
)
_FORGET: Final = re.compile(
    r"""(?ix)\b(?:forget|delete|remove|erase|drop|clear|wipe|discard|get\ rid\ of|vergiss|lösch\w*|entferne|oublie\w*
    |supprime\w*|efface\w*|olvida\w*|borra\w*|elimina\w*|esque[cç]\w*|apaga\w*|dimentica\w*|cancella\w*)\b"""
)
_OF_MEMORY: Final = re.compile(
    r"""(?ix)\b(?:forget|memor(?:y|ies)|remember\w*|you\ know\ about|what\ you\ know|vergiss|oublie\w*|olvida\w*
    |esque[cç]\w*|dimentica\w*)\b"""
)


class TurnSoFar:
    """The messages of the turn that runs.

    Args:
        state: The run's state, whatever its schema.
        config: The run's configuration.
    """

    def __init__(self, state: object, config: Mapping[str, Any]) -> None:
        given = _messages_in(state)
        self._messages = () if written_by_a_model(config) else _newest_turn(plain_messages(given))

    def source(self, statement: str, kind: Kind, thread_id: Any) -> Source:
        """Return who of the turn stands behind *statement*, where it was said."""
        found: Backing = backing(statement, kind, self._messages)
        return Source(found.speaker, thread_id, found.message.message_id if found.message else None)

    def asks_to_keep(self) -> bool:
        """Return whether the user asks that something is remembered."""
        return any(_KEEP.search(text) for text in self._said)

    def asks_to_forget(self, memory_id: str, text: str) -> bool:
        """Return whether the user asks that the memory with this id, which says *text*, is forgotten."""
        words = set(gist_of(text).words)
        return any(
            _FORGET.search(said)
            and (memory_id in said or _OF_MEMORY.search(said) is not None or bool(words & set(gist_of(said).words)))
            for said in self._said
        )

    @property
    def _said(self) -> list[str]:
        return [message.text for message in self._messages if message.role == "user"]


def written_by_a_model(config: Mapping[str, Any]) -> bool:
    """Whether this agent runs within another's tool call: its human message is a task that a model wrote.

    A run that was given a thread id of its own has a namespace of its own, too; then only the
    metadata, which are handed down, name the tool call.
    """
    own = str(config.get("configurable", {}).get("checkpoint_ns", ""))
    metadata: Mapping[str, Any] = config.get("metadata") or {}
    handed_down = str(metadata.get("checkpoint_ns", ""))
    # The last part is the node that runs: of a tool that is "tools", too.
    parts = [*own.split("|")[:-1], *(handed_down.split("|")[:-1] if handed_down == own else handed_down.split("|"))]
    return any(part.split(":")[0] == "tools" for part in parts)


def _newest_turn(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the user's newest messages and what came after them."""
    start = len(messages)
    while start and messages[start - 1].role != "user":
        start -= 1
    while start and messages[start - 1].role == "user":
        start -= 1
    return tuple(messages[start:])


def _messages_in(state: object) -> Sequence[Any]:
    if isinstance(state, Mapping):
        found = cast("Mapping[str, Any]", state).get("messages")
    else:
        found = getattr(state, "messages", None)
    return cast("Sequence[Any]", found) if isinstance(found, Sequence) and not isinstance(found, str) else ()
