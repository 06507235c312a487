"""LoCoMo's own file format: long conversations of two people, with questions and the turns that answer them.

The file is fetched by the user and never shipped: its licence is CC BY-NC 4.0.

Source:
    Maharana et al. 2024, "Evaluating Very Long-Term Conversational Memory of LLM Agents"; the file
    ``locomo10.json`` of snap-research/LoCoMo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep_evals.conversation import Conversation, DataSet, Observation, Question, Turn
from threadkeep_evals.files import Row, read_rows
from threadkeep_evals.metrics import CATEGORY_GROUPS

if TYPE_CHECKING:
    from pathlib import Path

_SESSION: Final = re.compile(r"session_(\d+)")
_WELL_FORMED: Final = re.compile(r"D([1-9]\d*):([1-9]\d*)")
# "D8:6; D9:17" holds two, "D:11:26" has a colon too many, "D30:05" a nought too many.
_REPAIRABLE: Final = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)")
_DATE: Final = re.compile(
    r"\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>am|pm)\s+on\s+(?P<day>\d{1,2})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{4})\s*",
    re.IGNORECASE,
)
# The names are spelled out because strptime would read them in the machine's language.
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_ADVERSARIAL: Final = 5
"""The category of questions that ask of one speaker what the other one said."""
_TURN_SPACING: Final = timedelta(seconds=1)


def load_locomo(path: Path) -> DataSet:
    """Read a LoCoMo file.

    Raises:
        InvalidInputError: The file cannot be read, or it is not a LoCoMo file; the message says what is wrong.
    """
    form = '{"sample_id", "conversation", "qa"} as in locomo10.json'
    read, sha256 = read_rows(path, _read_sample, name="LoCoMo", form=form)
    repaired, dropped = sum(repaired for _, repaired, _ in read), sum(dropped for _, _, dropped in read)
    return DataSet(
        kind="locomo",
        name=path.name,
        sha256=sha256,
        conversations=tuple(conversation for conversation, _, _ in read),
        groups=CATEGORY_GROUPS,
        levels=("turn", "session"),
        note=f"malformed evidence: {repaired} repaired, {dropped} dropped",
    )


def parse_date(text: str) -> datetime:
    """Read a session's date, e.g. ``1:56 pm on 8 May, 2023``; LoCoMo names no zone, so it is taken as UTC.

    Raises:
        ValueError: It is no such date.
    """
    found = _DATE.fullmatch(text)
    month = _MONTHS.get(found["month"][:3].lower()) if found else None
    if found is None or month is None:
        msg = f"{text!r} is not a date like '1:56 pm on 8 May, 2023'"
        raise ValueError(msg)
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    return datetime(int(found["year"]), month, int(found["day"]), hour, int(found["minute"]), tzinfo=UTC)


def repair_evidence(labels: Sequence[str], known: AbstractSet[str]) -> tuple[frozenset[str], int, int]:
    """Read the evidence of one question, malformed labels included.

    Args:
        labels: As in the file, e.g. ``["D1:3", "D8:6; D9:17"]``.
        known: The turn ids of the conversation.

    Returns:
        The turn ids, how many labels were repaired, and how many were dropped because they name no known turn.
    """
    evidence: set[str] = set()
    repaired = dropped = 0
    for label in labels:
        found = {f"D{int(session)}:{int(turn)}" for session, turn in _REPAIRABLE.findall(label)} & known
        evidence |= found
        if not found:
            dropped += 1
        elif not _WELL_FORMED.fullmatch(label):
            repaired += 1
    return frozenset(evidence), repaired, dropped


def _read_sample(sample: Row, place: int) -> tuple[Conversation, int, int]:
    """Read one element of the file's list; anything missing surfaces as the error that names it."""
    talk: Mapping[str, Any] = sample["conversation"]
    turns = _read_turns(talk)
    known = {turn.turn_id for turn in turns}
    questions: list[Question] = []
    repaired = dropped = 0
    for one in cast("Sequence[Mapping[str, Any]]", sample["qa"]):
        evidence, mended, lost = repair_evidence(one.get("evidence") or [], known)
        repaired += mended
        dropped += lost
        answer = one.get("answer")
        adversarial = int(one["category"]) == _ADVERSARIAL
        questions.append(
            Question(
                str(one["question"]),
                int(one["category"]),
                evidence,
                answer="" if answer is None or adversarial else str(answer),
                answerable=not adversarial,
            )
        )
    conversation = Conversation(
        conversation_id=str(sample.get("sample_id", place)),
        turns=turns,
        questions=tuple(questions),
        observations=tuple(_observations(sample.get("observation") or {}, known)),
    )
    return conversation, repaired, dropped


def _observations(by_session: Mapping[str, Any], known: AbstractSet[str]) -> Iterator[Observation]:
    """Read the notes on the speakers; one that names no known turn is left out."""
    for of_session in by_session.values():
        for speaker, notes in cast("Mapping[str, Any]", of_session).items():
            for text, labels in notes:
                found, _, _ = repair_evidence([labels] if isinstance(labels, str) else labels, known)
                if found:
                    yield Observation(str(speaker), str(text), found)


def _read_turns(talk: Mapping[str, Any]) -> tuple[Turn, ...]:
    # Some files name dates of sessions that they do not hold; only the sessions themselves count.
    numbers = sorted(int(found[1]) for key in talk if (found := _SESSION.fullmatch(key)))
    turns: list[Turn] = []
    for number in numbers:
        start = parse_date(talk[f"session_{number}_date_time"])
        for place, said in enumerate(cast("Sequence[Mapping[str, Any]]", talk[f"session_{number}"])):
            turns.append(
                Turn(
                    turn_id=str(said["dia_id"]),
                    session=number,
                    order=len(turns),
                    speaker=str(said["speaker"]),
                    words=str(said["text"]).strip(),
                    caption=str(said.get("blip_caption") or "").strip(),
                    at=start + place * _TURN_SPACING,
                )
            )
    return tuple(turns)
