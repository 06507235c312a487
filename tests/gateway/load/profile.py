"""How users talk, as files say it, and users who do."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final

from tests.gateway.load.client import Stream, talk_turn

PROFILES: Final = Path(__file__).parent / "profiles"
FILE: Final = "The tram to the castle leaves at nine.\n" * 50


@dataclass(frozen=True, slots=True)
class Profile:
    """How users talk.

    Attributes:
        users: How many at once; of several numbers, each is measured.
        seconds: How long turns are counted.
        warm_seconds: How long users talk before that.
        arrival_seconds: The mean pause between an answer and the user's next message; the pauses are exponential.
        words: How many words a reply has.
        words_per_second: How fast the model says them.
        disconnects: The share of the turns whose client leaves in the middle; the user goes on in a new thread.
        uploads: The share of the turns with a file.
    """

    users: tuple[int, ...]
    seconds: float
    warm_seconds: float
    arrival_seconds: float
    words: int
    words_per_second: float
    disconnects: float
    uploads: float


def load_profile(name: str) -> Profile:
    """Return the profile of a file, named by its path or, in the folder of profiles, by its name.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It names something that profiles do not have, or lacks something.
    """
    path = PROFILES / f"{name}.toml" if "/" not in name else Path(name)
    values: dict[str, Any] = tomllib.loads(path.read_text())
    names = {one.name for one in fields(Profile)}
    if values.keys() != names:
        msg = f"{path} must name {', '.join(sorted(names))}; it names {', '.join(sorted(values))}."
        raise ValueError(msg)
    return Profile(users=tuple(values.pop("users")), **values)


@dataclass(frozen=True, slots=True)
class TalkedTurn:
    """A turn of a user.

    Attributes:
        user: The number of the user.
        thread_id: The thread.
        word: The word that no other message has.
        statement: Whether it tells something; else it asks about what the user said before.
        left: Whether the client left in the middle.
        sent: When it was sent, as time.monotonic tells it.
        ended: When it ended.
        seen: What came.
    """

    user: int
    thread_id: str
    word: str
    statement: bool
    left: bool
    sent: float
    ended: float
    seen: Stream

    @property
    def failed(self) -> bool:
        """Whether it was not answered, as far as its client stayed."""
        return not (self.seen.complete or (self.left and self.seen.status == 200))

    @property
    def foreign(self) -> list[str]:
        """What was recalled of what other users said."""
        own = f"Town{self.user}u"
        return [text for text in self.seen.recalled if "Town" in text and own not in text]


@dataclass
class Talk:
    """Users who talk to servers that take turns: each message of a user goes to the next one.

    Args:
        origins: The servers.
        profile: How they talk.
        headers: Returns the headers of a user.
        salt: Keeps the threads of this talk apart from those of others.
        turns_of_each: How many turns each has; ``None``: as many as the time allows.
    """

    origins: Sequence[str]
    profile: Profile
    headers: Callable[[str], dict[str, str]]
    salt: str
    turns_of_each: int | None = None
    turns: list[TalkedTurn] = field(default_factory=list[TalkedTurn])

    async def run(self, users: int) -> float:
        """Talk, and return when the turns begin to count, as time.monotonic tells it."""
        began = monotonic()
        counted = began + self.profile.warm_seconds
        await asyncio.gather(*(self._user(number, counted + self.profile.seconds) for number in range(users)))
        return counted

    async def _user(self, number: int, until: float) -> None:
        random, profile = Random(f"{self.salt}-{number}"), self.profile
        headers, sitting = self.headers(f"u{number}"), 0
        await asyncio.sleep(random.uniform(0, profile.words / profile.words_per_second))
        for turn in count() if self.turns_of_each is None else range(self.turns_of_each):
            if self.turns_of_each is None and monotonic() >= until:
                return
            thread_id, word = f"{self.salt}-{number}-{sitting}", f"Town{number}u{self.salt}n{turn}"
            statement = turn % 2 == 0
            left, uploads = random.random() < profile.disconnects, random.random() < profile.uploads
            sent = monotonic()
            seen = await talk_turn(
                self.origins[(number + turn) % len(self.origins)],
                f"I like {word}." if statement else f"Which town did I say I like before I asked {word}?",
                thread_id,
                headers,
                file=FILE if uploads else None,
                leave_after=max(1, profile.words // 2) if left else None,
            )
            self.turns.append(TalkedTurn(number, thread_id, word, statement, left, sent, monotonic(), seen))
            sitting += left
            await asyncio.sleep(random.expovariate(1 / profile.arrival_seconds))
