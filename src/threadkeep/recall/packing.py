"""How long a text is for a model, and which statements fit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

from threadkeep.errors import InvalidInputError
from threadkeep.recall.models import Recalled

_PIECES: Final = re.compile(r"[A-Za-z]+|[0-9]+|[^\S\n]+|[.?!]\"|[!-/:-@\[-`{-~]?\n|[^A-Za-z0-9\s]")
_ASCII_TOKENS: Final = re.compile(r"[A-Za-z]{1,5}|[0-9]{1,3}|[^\S\n]{8}|[.?!]\"|[!-/:-@\[-`{-~]?\n|[^A-Za-z0-9\s]")
_LETTERS_PER_TOKEN: Final = 5
_DIGITS_PER_TOKEN: Final = 3
_WIDE: Final = 0x2E80  # East Asian scripts begin here
_ASTRAL: Final = 0x10000  # emoji and rare scripts
_FIRST_WITHOUT_LATIN: Final = 0x250

_WORDS: Final = re.compile(r"\w+")
_TAKE_BACK: Final = frozenset(
    {"but", "not", "t", "no", "never", "nor", "unless", "if", "when", "except", "until", "anymore", "once", "before"}
)

_SHORTEST_LINE: Final = 6
"""No line of a block or a list is shorter, in tokens or in characters."""

_PASSED_OVER_AT_MOST: Final = 16
"""So many statements that do not fit are enough to stop looking for a shorter one.

Source:
    Where messages are long (BEAM) a block of 300 tokens holds two points more of the evidence than with four.
"""


def estimate_tokens(text: str) -> int:
    """Return about how many model tokens *text* is; rather too many than too few.

    A run of Latin letters counts one for each five begun, digits one for each three, a sign or a line
    break one, and so do a full stop with the quote after it and a sign with the line break after it;
    spaces belong to the word after them. A letter with an accent counts one, of another
    script one, of East Asian scripts and combining signs two, and emoji three.

    Source:
        Byte-pair vocabularies of 100,000 and more entries hold most English words whole, split
        digits by three, and never need more tokens than a text has UTF-8 bytes; providers name four
        characters of English, spaces included, as one token. This counts about one for each 3.5.
    """
    if text.isascii():  # the same rules with the lengths in the pattern: five times as fast
        return len(_ASCII_TOKENS.findall(text))
    tokens = 0
    for piece in _PIECES.findall(text):
        first = ord(piece[0])
        if first < 0x80:  # noqa: PLR2004 - ASCII
            if piece[0].isalpha():
                tokens += -(-len(piece) // _LETTERS_PER_TOKEN)
            elif piece[0].isdigit():
                tokens += -(-len(piece) // _DIGITS_PER_TOKEN)
            elif piece[0].isspace() and piece[0] != "\n":
                tokens += len(piece) // 8  # a single space is part of the word after it
            else:
                tokens += 1
        elif first >= _ASTRAL:
            tokens += 3
        elif first >= _WIDE or (first >= _FIRST_WITHOUT_LATIN and unicodedata.combining(piece[0])):
            tokens += 2
        else:
            tokens += len(piece)
    return tokens


def normalised(text: str) -> str:
    """Return *text* as it is compared for sameness: folded, single spaces, no full stop at the end."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(" .!")


def says_no_more(text: str, than: str) -> bool:
    """Whether *than* begins with all of *text* and takes nothing of it back; both are normalised.

    ``i live in porto`` says no more than ``i live in porto with my sister``, but ``i like tea`` is
    something else than ``i like tea no more``.
    """
    if not than.startswith(text):
        return False
    rest = than[len(text) :]
    return not rest or (not rest[0].isalnum() and _TAKE_BACK.isdisjoint(_WORDS.findall(rest)))


class Fitting:
    """A block that is being filled, best statement first; whole statements only.

    A statement that does not fit is passed over, and a shorter one after it may fit. A statement that
    says no more than one that was taken takes no second place.

    Args:
        line_of: How a candidate is rendered, without the line break.
        frame: What stands around the lines.
        budget_tokens: Upper bound for the block, *frame* included, by :func:`estimate_tokens`.
        max_chars: Upper bound for the block in characters, *frame* included.
        max_facts: At most so many that are no episodes.
        max_episodes: At most so many episodes.

    Raises:
        InvalidInputError: A bound is negative.
    """

    def __init__(
        self,
        line_of: Callable[[Recalled], str],
        *,
        frame: str = "",
        budget_tokens: int | None = None,
        max_chars: int | None = None,
        max_facts: int | None = None,
        max_episodes: int | None = None,
    ) -> None:
        bounds = {
            "budget_tokens": budget_tokens,
            "max_chars": max_chars,
            "max_facts": max_facts,
            "max_episodes": max_episodes,
        }
        for name, bound in bounds.items():
            if bound is not None and bound < 0:
                msg = f"{name} must be 0 or more, not {bound}."
                raise InvalidInputError(msg, name=name)
        self.chosen: list[Recalled] = []
        self._line_of = line_of
        self._tokens, self._characters = budget_tokens, max_chars
        self._facts, self._episodes = max_facts, max_episodes
        self._seen: list[str] = []
        self._all_seen = ""
        self._passed_over = 0
        self._spend(len(frame), estimate_tokens(frame))

    @property
    def full(self) -> bool:
        """Whether there is no point in offering more: no room, no quota, or too many did not fit."""
        no_kind = self._facts == 0 and self._episodes == 0
        spent = any(left is not None and left < _SHORTEST_LINE for left in (self._tokens, self._characters))
        return no_kind or spent or self._passed_over >= _PASSED_OVER_AT_MOST

    def offer(self, candidate: Recalled) -> bool:
        """Take *candidate* if it says something new and there is room for it; return whether it was taken."""
        episode = candidate.memory.kind == "episodic"
        said = normalised(candidate.memory.text)
        if (self._episodes if episode else self._facts) == 0:
            return False
        if said in self._all_seen and any(says_no_more(said, one) for one in self._seen):  # most are nowhere in it
            return False
        line = self._line_of(candidate) + "\n"
        tokens = estimate_tokens(line) if self._tokens is not None else 0
        if not self._fits(len(line), tokens):
            self._passed_over += 1
            return False
        self._spend(len(line), tokens)
        if episode and self._episodes is not None:
            self._episodes -= 1
        elif not episode and self._facts is not None:
            self._facts -= 1
        self._seen.append(said)
        self._all_seen += f"{said}\n"
        self.chosen.append(candidate)
        return True

    def _fits(self, characters: int, tokens: int) -> bool:
        return all(
            left is None or needed <= left for needed, left in ((characters, self._characters), (tokens, self._tokens))
        )

    def _spend(self, characters: int, tokens: int) -> None:
        if self._tokens is not None:
            self._tokens -= tokens
        if self._characters is not None:
            self._characters -= characters


def fit(
    candidates: Iterable[Recalled],
    line_of: Callable[[Recalled], str],
    *,
    frame: str = "",
    budget_tokens: int | None = None,
    max_chars: int | None = None,
    max_facts: int | None = None,
    max_episodes: int | None = None,
) -> list[Recalled]:
    """Choose from *candidates*, best first, those that fit; see :class:`Fitting`. Reads no further than needed."""
    fitting = Fitting(
        line_of,
        frame=frame,
        budget_tokens=budget_tokens,
        max_chars=max_chars,
        max_facts=max_facts,
        max_episodes=max_episodes,
    )
    for candidate in candidates:
        if fitting.full:
            break
        fitting.offer(candidate)
    return fitting.chosen
