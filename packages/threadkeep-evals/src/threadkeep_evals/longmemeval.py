"""LongMemEval's files: each question has a history of sessions of its own, with a user and an assistant.

Source:
    Wu et al. 2025, "LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory"; the files
    ``longmemeval_s.json``, ``longmemeval_m.json`` and ``longmemeval_oracle.json`` of xiaowu0162/LongMemEval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.memories.labels import MAX_TEXT_CHARACTERS
from threadkeep_evals.beam import ALL
from threadkeep_evals.conversation import Conversation, DataSet, Question, Turn
from threadkeep_evals.files import Row, read_rows

if TYPE_CHECKING:
    from pathlib import Path

_FORM: Final = (
    '{"question_id", "question_type", "question", "haystack_session_ids", "haystack_dates", "haystack_sessions", '
    '"answer_session_ids"}'
)
_UNANSWERABLE: Final = "_abs"
_DATE_CHARACTERS: Final = len("2023/05/20")


def load_longmemeval(path: Path) -> DataSet:
    """Read a file of LongMemEval.

    Questions about what was never said (``_abs``) have no evidence, as in LongMemEval's own retrieval figures. Sessions
    are put in order of their time, and a message longer than a memory may be is cut to 8,000 characters. Where the
    turns of the evidence are not marked (``has_answer``), a question counts at session level only.

    Raises:
        InvalidInputError: The file cannot be read, or it is not LongMemEval's; the message says what is wrong.
    """
    read, sha256 = read_rows(path, _read_instance, name="LongMemEval", form=_FORM)
    talks = tuple(talk for talk, _ in read)
    kinds = sorted({str(one.category) for talk in talks for one in talk.questions if one.has_evidence})
    unmarked = sum(one.has_evidence and not one.evidence for talk in talks for one in talk.questions)
    return DataSet(
        kind="longmemeval",
        name=path.name,
        sha256=sha256,
        conversations=talks,
        groups={ALL: frozenset(kinds), **{kind: frozenset({kind}) for kind in kinds}},
        levels=("turn", "session"),
        note=(
            f"{sum(cut for _, cut in read):,} messages cut to {MAX_TEXT_CHARACTERS:,} characters, "
            f"{unmarked} questions without marked turns"
        ),
    )


def parse_date(text: str) -> datetime:
    """Read a session's time, e.g. ``2023/05/20 (Sat) 02:21``; no zone is named, so it is taken as UTC.

    Raises:
        ValueError: It is no such time.
    """
    day, time = text[:_DATE_CHARACTERS], text[_DATE_CHARACTERS:].rpartition(" ")[2]
    return datetime.strptime(f"{day} {time}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def _read_instance(row: Row, _place: int) -> tuple[Conversation, int]:
    ids: Sequence[str] = row["haystack_session_ids"]
    dates = [parse_date(text) for text in row["haystack_dates"]]
    sessions = cast("Sequence[Sequence[Mapping[str, Any]]]", row["haystack_sessions"])
    turns: list[Turn] = []
    answering: set[str] = set()
    numbers: dict[str, int] = {}
    cut = 0
    in_order = sorted(zip(dates, ids, sessions, strict=True), key=lambda one: one[0])
    for number, (at, session_id, said) in enumerate(in_order, start=1):
        numbers[session_id] = number
        for place, message in enumerate(said):
            text = str(message["content"]).strip()
            if not text:
                continue
            cut += len(text) > MAX_TEXT_CHARACTERS
            turn = Turn(
                turn_id=f"{number}:{place}",
                session=number,
                order=len(turns),
                speaker="",
                words=text[:MAX_TEXT_CHARACTERS],
                caption="",
                at=at + timedelta(seconds=place),
                role="assistant" if message["role"] == "assistant" else "user",
            )
            turns.append(turn)
            if message.get("has_answer"):
                answering.add(turn.turn_id)
    answerable = not str(row["question_id"]).endswith(_UNANSWERABLE)
    question = Question(
        str(row["question"]),
        str(row["question_type"]),
        frozenset(answering if answerable else ()),
        frozenset(numbers[one] for one in row["answer_session_ids"] if answerable and one in numbers),
        answer=str(row.get("answer") or ""),
        answerable=answerable,
        asked=str(row.get("question_date") or ""),
    )
    return Conversation(str(row["question_id"]), tuple(turns), (question,)), cut
