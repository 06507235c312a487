"""BEAM's chats of a user and an assistant, with questions and the messages that answer them.

The file is given by the user and never shipped: its repository states no licence.

Source:
    Tavakoli et al. 2025, "Beyond a Million Tokens: Benchmarking and Enhancing Long-Term Memory in
    LLMs"; chats of mohammadtavakoli78/BEAM as a list of ``{cid, msgs, qs}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.memories.labels import MAX_TEXT_CHARACTERS
from threadkeep_evals.conversation import Conversation, DataSet, Question, Turn
from threadkeep_evals.files import Row, read_rows

if TYPE_CHECKING:
    from pathlib import Path

ALL: Final = "all"

_MONTHS: Final[tuple[str, ...]] = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_MESSAGE_SPACING: Final = timedelta(seconds=1)


def load_beam(path: Path) -> DataSet:
    """Read a file of BEAM's chats.

    A message longer than a memory may be is cut to 8,000 characters.

    Raises:
        InvalidInputError: The file cannot be read, or it is not BEAM's; the message says what is wrong.
    """
    chats, sha256 = read_rows(path, _read_chat, name="BEAM", form='{"cid", "msgs", "qs"}')
    asked = [question for chat, _ in chats for question in chat.questions if question.evidence]
    kinds = sorted({str(question.category) for question in asked})
    return DataSet(
        kind="beam",
        name=path.name,
        sha256=sha256,
        conversations=tuple(chat for chat, _ in chats),
        groups={ALL: frozenset(kinds), **{kind: frozenset({kind}) for kind in kinds}},
        levels=("turn",),
        note=f"{sum(cut for _, cut in chats):,} messages cut to {MAX_TEXT_CHARACTERS:,} characters",
    )


def _read_chat(chat: Row, _place: int) -> tuple[Conversation, int]:
    turns: list[Turn] = []
    at = datetime(1970, 1, 1, tzinfo=UTC)
    cut = 0
    for message in cast("Sequence[Mapping[str, Any]]", chat["msgs"]):
        at = _date(message["time"]) if message.get("time") else at + _MESSAGE_SPACING
        text = str(message["text"]).strip()
        cut += len(text) > MAX_TEXT_CHARACTERS
        turns.append(
            Turn(
                turn_id=str(message["id"]),
                session=int(message["batch"]),
                order=len(turns),
                speaker="",
                words=text[:MAX_TEXT_CHARACTERS],
                caption="",
                at=at,
                role="assistant" if message["role"] == "assistant" else "user",
            )
        )
    known = {turn.turn_id for turn in turns}
    questions = tuple(
        Question(
            str(one["q"]),
            str(one["type"]),
            frozenset(map(str, one.get("ev") or ())) & known,
            answer=str(one.get("ans") or ""),
            answerable=one["type"] != "abstention",
        )
        for one in cast("Sequence[Mapping[str, Any]]", chat["qs"])
    )
    return Conversation(str(chat["cid"]), tuple(turns), questions), cut


def _date(text: str) -> datetime:
    """Read a date such as ``March-15-2024``; the names are English whatever the machine's language is."""
    month, day, year = text.split("-")
    return datetime(int(year), _MONTHS.index(month) + 1, int(day), tzinfo=UTC)
