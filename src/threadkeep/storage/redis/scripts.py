"""Redis commands, and the Lua scripts that a server knows by their digest.

redis-py's ``register_script`` loads a missing script with ``SCRIPT LOAD``: a right that a storage's user may lack, and
on a cluster a command to every primary. Here a call that meets NOSCRIPT is sent again as ``EVAL`` with the text, which
loads the script, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

Argument: TypeAlias = str | bytes | int

_FOLDER: Final = Path(__file__).with_name("lua")


class Command(NamedTuple):
    """One command.

    Attributes:
        arguments: Its name and arguments.
        key: One of its keys, which decides the node; all its keys share a hash slot.
        source: The text of the script that the command names by its digest.
    """

    arguments: tuple[Argument, ...]
    key: bytes
    source: str | None = None

    def with_source(self) -> Command:
        """Return the command with the script's text, for a server that does not know the script."""
        if self.source is None:
            return self
        return Command(("EVAL", self.source, *self.arguments[2:]), self.key)


def command(name: str, key: bytes, *arguments: Argument) -> Command:
    """Return a plain command on *key*."""
    return Command((name, key, *arguments), key)


@dataclass(frozen=True)
class Script:
    """A Lua script: the files *names* of the folder ``lua``, one after the other."""

    names: tuple[str, ...]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = [(_FOLDER / f"{name}.lua").read_text(encoding="utf-8") for name in self.names]
        object.__setattr__(self, "text", "\n".join(parts))

    @cached_property
    def digest(self) -> str:
        """The server's name for the script."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def command(self, keys: Sequence[bytes], *arguments: Argument) -> Command:
        """Return the command that runs the script; on a cluster *keys* share a hash slot."""
        return Command(("EVALSHA", self.digest, len(keys), *keys, *arguments), keys[0], self.text)


COMMIT: Final = Script(("partition", "commit"))
ERASE: Final = Script(("partition", "erase"))
CHANGES: Final = Script(("changes",))
SCAN: Final = Script(("scan",))
DUE: Final = Script(("due",))
NAMESPACES: Final = Script(("namespaces",))
STATS: Final = Script(("stats",))
