"""Commands for Redis, and the scripts among them, which a server knows by their digest once it has seen them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from threadkeep.storage.redis.lua import source

Argument: TypeAlias = str | bytes | int


class Command(NamedTuple):
    """One command, and what tells where it goes.

    Attributes:
        arguments: Its name and arguments.
        key: One of its keys; they all share its hash slot.
        script: The text of the script that it names by digest only.
    """

    arguments: tuple[Argument, ...]
    key: str
    script: str | None = None

    def in_full(self) -> Command:
        """Return it with the script's text, for a server that has not seen the script yet or forgot it."""
        if self.script is None:
            return self
        return Command(("EVAL", self.script, *self.arguments[2:]), self.key)


def command(name: str, key: str, *arguments: Argument) -> Command:
    """Return a plain command on *key*."""
    return Command((name, key, *arguments), key)


@dataclass(frozen=True)
class Script:
    """A script of this package; *names* are its files."""

    names: tuple[str, ...]
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", source(*self.names))

    @cached_property
    def digest(self) -> str:
        """What a server calls it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def command(self, keys: Sequence[str], *arguments: Argument) -> Command:
        """Return the command that runs it; *keys* share a hash slot, on a cluster."""
        return Command(("EVALSHA", self.digest, len(keys), *keys, *arguments), keys[0], self.text)


COMMIT: Final = Script(("partition", "commit"))
ERASE: Final = Script(("partition", "erase"))
CHANGES: Final = Script(("changes",))
SCAN: Final = Script(("scan",))
DUE: Final = Script(("due",))
NAMESPACES: Final = Script(("namespaces",))
STATS: Final = Script(("stats",))
