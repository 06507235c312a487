"""Learn from exports of conversations: ChatGPT, Claude, Slack, WhatsApp and JSON; only from the user's own words."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from threadkeep.errors import InvalidInputError, OptedOutError
from threadkeep.ids import MessageId, ThreadId, short_digest
from threadkeep.models.base import Message

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.services import Services

ExportFormat: TypeAlias = Literal["chatgpt", "claude", "slack", "whatsapp", "json"]
DateOrder: TypeAlias = Literal["dmy", "mdy"]

FORMATS: Final = get_args(ExportFormat)
MAX_FILE_BYTES: Final = 1_000_000_000
"""Of one file of an export, unpacked."""

_Row: TypeAlias = Mapping[str, Any]
_Files: TypeAlias = Mapping[str, Callable[[], bytes]]

_CONVERSATIONS: Final = re.compile(r"conversations(-\d+)?\.json")
_DAY_FILE: Final = re.compile(r"\d{4}-\d\d-\d\d\.json")
_WHATSAPP: Final = re.compile(
    r"[\u200e\u200f\u202a]{0,8}\[?(\d{1,4})[./-](\d{1,2})[./-](\d{1,4}),? (\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    r"(?:[ \u202f\u00a0]?([AaPp])\.?[Mm]\.?)?(?:\]| -) (.*)"
)
_SLACK_LINK: Final = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_DAMAGED: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading a value of another type or range than expected raises."""
_YEAR_DIGITS: Final = 4
_MONTHS: Final = 12


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """A message that the user wrote.

    Attributes:
        message_id: The same in every export of the conversation.
        text: What the user wrote.
        at: When.
    """

    message_id: str
    text: str
    at: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            msg = f"the text of a message is {type(self.text).__name__}"
            raise TypeError(msg)


@dataclass(frozen=True, slots=True)
class ExportedConversation:
    """A conversation of an export.

    Attributes:
        conversation_id: The same in every export.
        messages: What the user wrote, in order.
        problem: Why the conversation cannot be read; empty: it can.
    """

    conversation_id: str
    messages: tuple[ExportedMessage, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """An export.

    Attributes:
        program: Of which program.
        conversations: All of it.
    """

    program: ExportFormat
    conversations: tuple[ExportedConversation, ...]


def read_export(
    path: Path, *, program: ExportFormat | None = None, me: str | None = None, dates: DateOrder | None = None
) -> Export:
    """Read an export: a JSON or text file, a ZIP, or a folder.

    Args:
        path: The file or the folder.
        program: Of which program; ``None``: recognised by its content.
        me: The user's name or id, in exports of Slack and WhatsApp.
        dates: Whether the day or the month comes first in a WhatsApp chat; ``None``: as its dates allow.

    Raises:
        InvalidInputError: The file is missing, damaged or of no known format or version, or *me* is missing or unknown.
    """
    if program is not None and program not in FORMATS:
        msg = f"The format {str(program)[:40]!r} is unknown; give one of {', '.join(FORMATS)}."
        raise InvalidInputError(msg)
    try:
        files = _files(path)
        found = program or _recognise(files, path.name)
        readers: dict[ExportFormat, Callable[[], Iterable[ExportedConversation]]] = {
            "chatgpt": lambda: _each(files, "mapping", "ChatGPT", _chatgpt),
            "claude": lambda: _each(files, "chat_messages", "Claude", _claude),
            "slack": lambda: _slack(files, me),
            "whatsapp": lambda: _whatsapp(files, me, dates),
            "json": lambda: _each(files, "messages", "JSON", _plain),
        }
        return Export(found, tuple(readers[found]()))
    except InvalidInputError:
        raise
    except (*_DAMAGED, OSError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        msg = f"{path.name!r} cannot be read as an export ({type(error).__name__}); export it again."
        raise InvalidInputError(msg) from error


def _files(path: Path) -> _Files:
    """Return how to read each file below *path* by its name."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file())
        return {file.relative_to(path).as_posix(): _reader(file) for file in found}
    if not zipfile.is_zipfile(path):
        return {path.name: _reader(path)}
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
    return {member.filename: _member_reader(path, member) for member in members}


def _reader(file: Path) -> Callable[[], bytes]:
    return lambda: _bounded(file.name, file.stat().st_size, file.read_bytes)


def _member_reader(path: Path, member: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)

    return lambda: _bounded(member.filename, member.file_size, read)


def _bounded(name: str, size: int, read: Callable[[], bytes]) -> bytes:
    if size > MAX_FILE_BYTES:
        msg = f"{name!r} has more than {MAX_FILE_BYTES:,} bytes; export a shorter time."
        raise InvalidInputError(msg)
    return read()


def _recognise(files: _Files, name: str) -> ExportFormat:
    """Return the format of an export.

    Raises:
        InvalidInputError: It is none that is known.
    """
    names = {PurePosixPath(file).name for file in files}
    if "users.json" in names and any(_DAY_FILE.fullmatch(file) for file in names):
        return "slack"
    if _conversation_files(files):
        keys = {key for row in _rows(files) for key in row}
        for key, format_ in (("mapping", "chatgpt"), ("chat_messages", "claude"), ("messages", "json")):
            if key in keys:
                return cast("ExportFormat", format_)
    texts = [file for file in files if file.endswith(".txt")]
    if texts and any(_WHATSAPP.match(line) for line in _lines(files[texts[0]]())[:20]):
        return "whatsapp"
    msg = f"{name!r} is not an export of a known program or version; the formats are {', '.join(FORMATS)}."
    raise InvalidInputError(msg)


def _conversation_files(files: _Files) -> list[str]:
    """Return the files with conversations: ``conversations.json``, or the only JSON file."""
    named = [file for file in files if _CONVERSATIONS.fullmatch(PurePosixPath(file).name)]
    return sorted(named) or [file for file in files if file.endswith(".json") and len(files) == 1]


def _rows(files: _Files) -> Iterator[_Row]:
    for file in _conversation_files(files):
        value: Any = json.loads(files[file]())
        if isinstance(value, dict) and "conversations" in value:
            value = cast("_Row", value)["conversations"]
        rows: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
        yield from (cast("_Row", row) if isinstance(row, dict) else {} for row in rows)


def _each(
    files: _Files, key: str, program: str, read: Callable[[_Row], Iterable[ExportedMessage]]
) -> Iterator[ExportedConversation]:
    """Read each conversation; one that is not as expected is left out with the reason.

    Raises:
        InvalidInputError: None has *key*: the export is of another program or version.
    """
    rows = [*_rows(files)]
    if rows and not any(key in row for row in rows):
        msg = f"No conversation has {key!r}: this is no {program} export, or one of another version."
        raise InvalidInputError(msg)
    for number, row in enumerate(rows, 1):
        given = row.get("conversation_id") or row.get("uuid") or row.get("id")
        name = str(given) if given else short_digest(json.dumps(row, sort_keys=True))
        read_row = _conversation(name, read(row), program)
        yield read_row if given or not read_row.problem else replace(read_row, conversation_id=f"conversation {number}")


def _conversation(name: str, messages: Iterable[ExportedMessage], program: str) -> ExportedConversation:
    """Return a conversation; one that is not as expected has the reason in place of messages."""
    try:
        return ExportedConversation(name, tuple(messages))
    except (*_DAMAGED, OSError) as error:
        problem = f"it is not as in a {program} export ({type(error).__name__}: {str(error)[:80]})"
        return ExportedConversation(name, problem=problem)


def _chatgpt(row: _Row) -> Iterator[ExportedMessage]:
    """Yield the user's messages of the branch that was open last."""
    nodes: Mapping[str, Any] = row["mapping"]
    current = row.get("current_node") or next((key for key, node in nodes.items() if not node["children"]), None)
    path: list[_Row] = []
    seen: set[str] = set()
    while current is not None and current not in seen:
        seen.add(current)
        node = nodes[current]
        if node.get("message") is not None:
            path.append(node["message"])
        current = node.get("parent")
    for message in reversed(path):
        content: _Row = message["content"]
        metadata: _Row = message.get("metadata") or {}
        if message["author"]["role"] != "user" or metadata.get("is_visually_hidden_from_user"):
            continue
        if content.get("content_type") not in ("text", "multimodal_text"):
            continue
        text = "\n".join(part for part in content["parts"] if isinstance(part, str))
        at = message.get("create_time") or row["create_time"]
        yield ExportedMessage(message["id"], text, datetime.fromtimestamp(float(at), UTC))


def _claude(row: _Row) -> Iterator[ExportedMessage]:
    for message in row["chat_messages"]:
        if message["sender"] == "human":
            blocks = [block["text"] for block in message.get("content") or () if block.get("type") == "text"]
            text = "\n".join(blocks) or message["text"]
            yield ExportedMessage(message["uuid"], text, _moment(message.get("created_at") or row["created_at"]))


def _plain(row: _Row) -> Iterator[ExportedMessage]:
    """Yield the user's messages of ``{"id", "messages": [{"role", "text" or "content", "at"}]}``."""
    identified = _Identified()
    for message in row["messages"]:
        if message["role"] in ("user", "human"):
            text = message["text"] if "text" in message else message["content"]
            at = _moment(message.get("at") or message.get("created_at") or row["created_at"])
            yield identified.message(at, text, given=message.get("id"))


class _Identified:
    """Gives messages without an id one that is the same in every export: equal ones of a moment are counted."""

    def __init__(self) -> None:
        self._seen = Counter[tuple[datetime, str]]()

    def message(self, at: datetime, text: str, *, given: object = None) -> ExportedMessage:
        """Return a message."""
        self._seen[at, text] += 1
        made = short_digest("message", at.isoformat(), text, str(self._seen[at, text]))
        return ExportedMessage(str(given) if given else made, text, at)


def _moment(value: object) -> datetime:
    """Return a time in ISO 8601, or in seconds since 1970; without an offset it is in UTC."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    at = datetime.fromisoformat(str(value))
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _slack(files: _Files, me: str | None) -> Iterator[ExportedConversation]:
    users = next((file for file in files if PurePosixPath(file).name == "users.json"), None)
    if users is None:
        msg = "The Slack export has no users.json: it is of another version, or not complete."
        raise InvalidInputError(msg)
    names: dict[str, str] = {}
    mine: set[str] = set()
    for user in json.loads(files[users]()):
        profile: _Row = user.get("profile") or {}
        known = {user["id"], user.get("name"), user.get("real_name"), profile.get("display_name"), profile.get("email")}
        names[user["id"]] = profile.get("display_name") or user.get("real_name") or user.get("name") or user["id"]
        if me is not None and me in known:
            mine.add(user["id"])
    if len(mine) != 1:
        what = "is missing" if me is None else "names several users" if mine else "names no user"
        msg = f"me {what} of the Slack export; pass the id or name of the user, as users.json has it."
        raise InvalidInputError(msg)
    channels: dict[str, list[str]] = {}
    for file in sorted(files):
        place = PurePosixPath(file)
        if _DAY_FILE.fullmatch(place.name):
            channels.setdefault(place.parent.name, []).append(file)
    for channel, days in channels.items():
        yield _conversation(channel, _slack_messages(files, days, mine.copy().pop(), names), "Slack")


def _slack_messages(
    files: _Files, days: Sequence[str], mine: str, names: Mapping[str, str]
) -> Iterator[ExportedMessage]:
    def shown(link: re.Match[str]) -> str:
        target, label = link[1], link[2]
        return label or (f"@{names.get(target[1:], target[1:])}" if target.startswith("@") else target)

    for day in days:
        for message in json.loads(files[day]()):
            if message.get("user") == mine and message.get("subtype") in (None, "thread_broadcast", "me_message"):
                text = unescape(_SLACK_LINK.sub(shown, message["text"]))
                at = datetime.fromtimestamp(float(message["ts"]), UTC)
                yield ExportedMessage(message["ts"], text, at)


def _whatsapp(files: _Files, me: str | None, dates: DateOrder | None) -> Iterator[ExportedConversation]:
    for file in files:
        if file.endswith(".txt"):
            rows = _whatsapp_rows(_lines(files[file]()))
            people = sorted({speaker for _, speaker, _ in rows})
            if me not in people:
                what = "missing" if me is None else "none of them"
                msg = f"The user's name is {what}: the chat {file!r} is between {', '.join(people)[:200]}; pass me."
                raise InvalidInputError(msg)
            identified, order = _Identified(), _date_order([date for date, _, _ in rows], dates)
            messages = [(_at(date, order), text) for date, speaker, text in rows if speaker == me]
            name = short_digest(*people)
            yield ExportedConversation(name, tuple(identified.message(at, text) for at, text in messages))


def _lines(data: bytes) -> list[str]:
    """Return the lines of a chat; other separators than a line feed are part of what a person wrote."""
    return [line.removesuffix("\r") for line in data.decode("utf-8-sig").split("\n")]


_Date: TypeAlias = tuple[tuple[int, int, int], tuple[int, int, int]]
"""The three numbers of a date as written, and hour, minute and second."""


def _whatsapp_rows(lines: Iterable[str]) -> list[tuple[_Date, str, str]]:
    """Return when each message was sent, by whom, and its text; lines of the program itself have no sender."""
    rows: list[tuple[_Date, str, list[str]]] = []
    for line in lines:
        found = _WHATSAPP.match(line)
        if found is None:
            if rows:
                rows[-1][2].append(line)
            continue
        hour = int(found[4])
        if found[7]:
            hour = hour % _MONTHS + (_MONTHS if found[7].lower() == "p" else 0)
        date: _Date = (
            (int(found[1]), int(found[2]), int(found[3])),
            (hour, int(found[5]), int(found[6] or 0)),
        )
        speaker, colon, text = found[8].lstrip("\u200e\u202a").partition(": ")
        omitted = text.startswith(("\u200e", "<"))  # a picture, or a line of the program itself
        rows.append((date, speaker.strip("\u202c") if colon else "", [] if omitted or not colon else [text]))
    return [(date, speaker, "\n".join(texts)) for date, speaker, texts in rows if speaker and texts]


def _date_order(dates: Sequence[_Date], order: DateOrder | None) -> DateOrder:
    """Return whether the day or the month comes first: the dates are real, and in order, with one of them.

    Raises:
        InvalidInputError: Both are possible, or none.
    """
    if order is not None:
        return order
    possible: list[DateOrder] = []
    for one in get_args(DateOrder):
        with suppress(ValueError):
            moments = [_at(date, one) for date in dates]
            if moments == sorted(moments):
                possible.append(one)
    same = all(_at(date, "dmy") == _at(date, "mdy") for date in dates) if len(possible) > 1 else bool(possible)
    if same:
        return possible[0]
    msg = "Day and month of the dates of the WhatsApp chat cannot be told apart; pass dates, as dmy or mdy."
    raise InvalidInputError(msg)


def _at(date: _Date, order: DateOrder) -> datetime:
    (first, second, third), (hour, minute, seconds) = date
    if len(str(first)) == _YEAR_DIGITS:
        year, month, day = first, second, third
    else:
        day, month = (first, second) if order == "dmy" else (second, first)
        year = third if len(str(third)) == _YEAR_DIGITS else 2_000 + third
    return datetime(year, month, day, hour, minute, seconds, tzinfo=UTC)


ImportProgress: TypeAlias = Callable[[int, int], object]
"""Called with how many conversations are done and how many there are; must be quick."""

TURNS_OF_A_THREAD: Final = 100
"""A longer conversation becomes several threads, each from the same message on in every export."""

_TOMORROW: Final = timedelta(days=1)
_SETTLE: Final = timedelta(minutes=10)
"""How long it waits for turns that another process learns from."""

_NAME_CHARACTERS: Final = 200
_IMPORTED: Final = "import:"
"""How the ids of imported threads begin."""


@dataclass(frozen=True, slots=True)
class SkippedConversation:
    """A conversation that was left out, and why."""

    conversation_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConversationImport:
    """The result of an import.

    Attributes:
        program: Of which program the export is.
        conversations: How many conversations were read.
        messages: How many messages of the user they have.
        new: How many of these were not imported before.
        memories: How many memories they taught, changed or confirmed.
        proposals: How many statements wait for an approval.
        skipped: The conversations that were left out; the others are imported.
    """

    program: ExportFormat
    conversations: int
    messages: int
    new: int
    memories: int
    proposals: int
    skipped: tuple[SkippedConversation, ...]


async def learn_from_export(
    services: Services, export: Export, *, owner: Owner, accept: bool, progress: ImportProgress | None = None
) -> ConversationImport:
    """Learn from every conversation of *export* that is not imported yet, one after the other.

    An import that ended early is repeated: what is there is skipped.

    Args:
        services: Of the memory.
        export: The conversations.
        owner: The user who wrote the messages.
        accept: Keep what the policy keeps of the user's own words; otherwise every statement is proposed.
        progress: Called after each conversation.

    Raises:
        OptedOutError: The owner opted out of memory.
        StorageError: The storage failed; the import can be repeated.
    """
    if services.opt_outs.holds(owner, None):
        msg = "The owner has opted out of memory; tk.owners.opt_out(owner, out=False) opts in again."
        raise OptedOutError(msg)
    skipped: list[SkippedConversation] = []
    messages = new = 0
    memories: set[str] = set()
    proposals: set[str] = set()
    latest = services.clock.now() + _TOMORROW
    for number, conversation in enumerate(export.conversations, 1):
        if problem := conversation.problem or _problem(conversation, latest):
            skipped.append(SkippedConversation(conversation.conversation_id, problem))
            continue
        for thread_id, part in _threads(export.program, conversation):
            turns, moments = _turns(thread_id, part)
            receipt = await services.captures.learn_imported(
                turns, at=moments, ask=not accept, owner=owner, thread_id=thread_id
            )
            messages += len(part)
            if receipt.status == "queued":
                settled = await services.captures.settle(receipt, owner=owner, timeout=_SETTLE)
                new += len(receipt.turn_ids)
                memories.update(settled.memory_ids)
                proposals.update(settled.proposal_ids)
        if progress is not None:
            progress(number, len(export.conversations))
    await _learn_rest(services, owner)
    read = len(export.conversations) - len(skipped)
    return ConversationImport(export.program, read, messages, new, len(memories), len(proposals), tuple(skipped))


async def _learn_rest(services: Services, owner: Owner) -> None:
    """Learn from what earlier imports had recorded: those that were stopped, and turns that failed, once more each.

    A turn that failed waits for its next try, or is kept aside, so draining alone would leave it out.
    """
    captures = services.captures
    await captures.drain(_SETTLE, others=True)
    queued = await captures.queued(owner)
    rest = [turn.turn_id for turn in queued if (turn.thread_id or "").startswith(_IMPORTED)]
    if rest:
        await captures.retry(rest, owner=owner)
        await captures.drain(_SETTLE, others=True)


def _problem(conversation: ExportedConversation, latest: datetime) -> str:
    """Return why a conversation cannot be imported; empty: it can."""
    future = next((message.at for message in conversation.messages if message.at > latest), None)
    return f"a message is dated {future:%Y-%m-%d}, in the future" if future else ""


def _threads(
    program: ExportFormat, conversation: ExportedConversation
) -> Iterator[tuple[ThreadId, Sequence[ExportedMessage]]]:
    """Yield the threads that a conversation becomes, each with its messages."""
    name = conversation.conversation_id
    name = name if len(name) <= _NAME_CHARACTERS else short_digest(name)
    messages = list({one.message_id: one for one in conversation.messages if one.text.strip()}.values())
    for start in range(0, len(messages), TURNS_OF_A_THREAD):
        part = messages[start : start + TURNS_OF_A_THREAD]
        yield ThreadId(f"{_IMPORTED}{program}:{name}:{start // TURNS_OF_A_THREAD}"), part


def _turns(thread_id: ThreadId, messages: Sequence[ExportedMessage]) -> tuple[list[Message], dict[MessageId, datetime]]:
    """Return each message as a turn of its own, behind which an empty reply stands, and when it was written."""
    conversation = thread_id.rpartition(":")[0]
    moments = {MessageId(f"{conversation}:{message.message_id}"): message.at for message in messages}
    turns = [
        part
        for key, message in zip(moments, messages, strict=True)
        for part in (Message("user", message.text, key), Message("assistant", ""))
    ]
    return turns, moments
