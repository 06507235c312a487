"""LoCoMo-Plus: short dialogues put into LoCoMo's conversations, and something said later that they explain.

Cue and query share few words and little meaning: a person who turned down a promotion does not say that their child
once ran into the street. Neither file is shipped; the repository of LoCoMo-Plus states no licence.

Source:
    ``data/locomo_plus.json`` of xjtuleeyf/Locomo-Plus, a list of ``{relation_type, cue_dialogue, trigger_query,
    time_gap}``. As in its ``build_conv.py`` the query is said a week after the last session and the cue *time_gap*
    before it, as a session of its own. There the conversation is drawn at random; here the entries go round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.errors import InvalidInputError
from threadkeep_evals.beam import ALL
from threadkeep_evals.conversation import Conversation, DataSet, Question, Turn
from threadkeep_evals.files import Row, read_rows
from threadkeep_evals.locomo import load_locomo

if TYPE_CHECKING:
    from pathlib import Path

_FORM: Final = '{"relation_type", "cue_dialogue", "trigger_query", "time_gap"}'
_SAID: Final = re.compile(r"\s*([AB]):\s*(.*\S)\s*")
_GAP: Final = re.compile(
    r"\b(?:(?P<number>\d+(?:[.,]\d+)?|[a-z]+)\+?(?P<more>\s+and\s+a\s+half)?|(?P<part>half|quarter)(?:\s+of)?\s+an?)"
    r"(?:\s+(?:of|more|full|whole|long|the))*[\s-]+"
    r"(?P<unit>minute|hour|day|night|morning|evening|weekend|week|fortnight|month|season|quarter|year|decade)s?\b"
)
_DAYS: Final = {
    "minute": 1 / 1440,
    "hour": 1 / 24,
    "day": 1,
    "night": 1,
    "morning": 1,
    "evening": 1,
    "weekend": 7,
    "week": 7,
    "fortnight": 14,
    "month": 30,
    "season": 91,
    "quarter": 91,
    "year": 365,
    "decade": 3650,
}
_VAGUE: Final = {"a": 1, "an": 1, "next": 1, "following": 1, "couple": 2, "pair": 2, "few": 3, "several": 4, "some": 3}
_PARTS: Final = {"half": 0.5, "quarter": 0.25}
_UNTOLD: Final = timedelta(days=30)
"""Where an entry does not say how much later something is said in a form that can be read."""
_NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), start=1
    )
}
_ASKED_AFTER: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A cue, what it explains, and how long before that it was said; speakers are ``A`` and ``B``."""

    relation: str
    cue: tuple[tuple[str, str], ...]
    query: str
    gap: timedelta | None


def load_locomo_plus(path: Path, locomo: Path) -> DataSet:
    """Read a file of LoCoMo-Plus and put each entry into one of LoCoMo's conversations.

    Every entry is a conversation of its own: all of LoCoMo's turns, the cue among them, and one question with the cue's
    turns as its evidence.

    Raises:
        InvalidInputError: A file cannot be read, or is not of its kind; the message says what is wrong.
    """
    entries, sha256 = read_rows(path, _read_entry, name="LoCoMo-Plus", form=_FORM)
    base = load_locomo(locomo)
    relations = sorted({entry.relation for entry in entries})
    return DataSet(
        kind="locomo-plus",
        name=path.name,
        sha256=sha256,
        conversations=tuple(
            _put_into(base.conversations[place % len(base.conversations)], entry, place)
            for place, entry in enumerate(entries)
        ),
        groups={ALL: frozenset(relations), **{relation: frozenset({relation}) for relation in relations}},
        levels=("turn", "session"),
        note=(
            f"put into {len(base.conversations)} conversations of {base.name} (SHA-256 {base.sha256}); "
            f"{sum(entry.gap is None for entry in entries)} gaps that cannot be read are taken as {_UNTOLD.days} days"
        ),
    )


def parse_gap(text: str) -> timedelta | None:
    """Read how much later something is said, such as ``about six months later`` or ``half a year``.

    Months have 30 days, years 365; a few are three, several are four.

    Returns:
        The gap; None if the text says none.
    """
    for found in _GAP.finditer(text.lower()):
        number = found["number"]
        if found["part"]:
            count: float | None = _PARTS[found["part"]]
        elif number[:1].isdigit():
            count = float(number.replace(",", "."))
        else:
            count = {**_NUMBERS, **_VAGUE}.get(number)
        if count is not None:
            return timedelta(days=(count + 0.5 * bool(found["more"])) * _DAYS[found["unit"]])
    return timedelta(days=1) if re.search(r"(?i)\b(?:tomorrow|overnight)\b", text) else None


def _read_entry(row: Row, _place: int) -> _Entry:
    cue = _said(row["cue_dialogue"])
    query = " ".join(words for _, words in _said(row["trigger_query"]))
    return _Entry(str(row["relation_type"]), tuple(cue), query, parse_gap(str(row["time_gap"])))


def _said(text: str) -> Sequence[tuple[str, str]]:
    """Read lines such as ``A: Hello.``; some of the file's line breaks are the two characters of their escape."""
    lines = text.replace("\\n", "\n").splitlines()
    said = [(found[1], found[2]) for one in lines if (found := _SAID.fullmatch(one))]
    if not said:
        msg = f"{text[:80]!r} has no line like 'A: …'"
        raise ValueError(msg)
    return said


def _put_into(talk: Conversation, entry: _Entry, place: int) -> Conversation:
    """Return *talk* with the cue as a session of its own, at its time; sessions and turns are numbered anew."""
    if len(talk.speakers) < len("AB"):
        msg = f"Only one speaks in {talk.conversation_id}; LoCoMo-Plus is put among the turns of two."
        raise InvalidInputError(msg)
    names = dict(zip("AB", talk.speakers, strict=False))
    at = max(turn.at for turn in talk.turns) + _ASKED_AFTER - (_UNTOLD if entry.gap is None else entry.gap)
    cue = [_cue_turn(names[who], words, number, at) for number, (who, words) in enumerate(entry.cue, start=1)]
    before = [turn for turn in talk.turns if turn.at <= at]
    # The cue is never put into the middle of a session that began before it.
    whole = {turn.session for turn in before}
    first = [turn for turn in talk.turns if turn.session in whole]
    rest = [turn for turn in talk.turns if turn.session not in whole]
    turns = [*first, *cue, *rest]
    numbers = {session: number for number, session in enumerate(dict.fromkeys(turn.session for turn in turns), start=1)}
    return Conversation(
        conversation_id=f"{talk.conversation_id}/cue-{place}",
        turns=tuple(replace(turn, session=numbers[turn.session], order=order) for order, turn in enumerate(turns)),
        questions=(Question(entry.query, entry.relation, frozenset(turn.turn_id for turn in cue)),),
    )


def _cue_turn(speaker: str, words: str, number: int, at: datetime) -> Turn:
    return Turn(f"cue:{number}", 0, 0, speaker, words, "", at + timedelta(seconds=number - 1))
