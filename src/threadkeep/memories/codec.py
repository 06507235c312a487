"""How memories and their vectors are stored, and how lines of an export are parsed. Pure rules."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, cast, get_args

from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, MessageId, ProposalId, ThreadId, TurnId, short_digest
from threadkeep.memories.kinds import Kind, is_kind
from threadkeep.memories.labels import metadata_of, tags_of
from threadkeep.memories.models import (
    ASKED,
    Approval,
    Archived,
    Memory,
    NewMemory,
    Source,
    Speaker,
    Status,
    Version,
    needs_approval,
)
from threadkeep.storage.interface import Embedding, Expectation, Item, Namespace, Partition, Put, Ref
from threadkeep.text.semantics import same_words

MEMORIES: Final = "memories"
SUMMARIES: Final = "summaries"
ACCOUNTS: Final = ".usage"
CREDENTIALS: Final = ".credentials"
AUTHORIZATIONS: Final = ".authorizations"
SECRET: Final = "secret"  # noqa: S105 - a field's name
"""The field of a credential, or of an authorization, with everything that an export leaves out."""

HEAD: Final = ".capture"
"""One row an owner, rewritten with every new statement: two writers cannot both write from what they read."""
HEAD_KEY: Final = "head"

USES: Final = ".uses"
_NO_PARTITION: Final = Partition("root", ())
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
SCHEMA_NAMES: Final[Mapping[Kind, str]] = {
    "semantic": "SemanticMemory",
    "episodic": "EpisodicMemory",
    "procedural": "ProceduralMemory",
}
"""What LangMem's manager calls a memory's kind."""
LANGMEM_KIND: Final = "Memory"
"""The schema that LangMem's manager uses unless it is given others, and the only one that it then can update."""
_KINDS: Final[dict[str, Kind]] = {name: kind for kind, schema in SCHEMA_NAMES.items() for name in (kind, schema)}
_SHORT_TIME: Final = 40
_STATUSES: Final = frozenset(get_args(Status))
_SPEAKERS: Final = frozenset(get_args(Speaker))


def uses_namespace(owner: Owner) -> Namespace:
    """Return where it is kept when *owner*'s memories were used."""
    return (USES, owner.label)


def memory_namespaces(label: str) -> tuple[Namespace, Namespace]:
    """Return the namespaces that hold the memories of *label*, with everything below them."""
    return (MEMORIES, label), ("users", label, MEMORIES)


def recalled_namespaces(label: str) -> tuple[Namespace, ...]:
    """Return the namespaces that recall and search read: memories, and summaries of threads."""
    return (MEMORIES, label), ("users", label, MEMORIES), (SUMMARIES, label)


def is_summary(memory: Memory) -> bool:
    """Return whether *memory* is the summary of a thread."""
    return memory.namespace[:1] == (SUMMARIES,)


@lru_cache(maxsize=4096)
def is_memory_namespace(namespace: Namespace) -> bool:
    """Whether items in *namespace* are memories."""
    match namespace:
        case (root, _, *_) if root == MEMORIES:
            return True
        case ("users", _, branch, *_) if branch == MEMORIES:
            return True
        case _:
            return False


def text_path(namespace: Namespace) -> str:
    """Return the field that holds the statement in memories that are written to *namespace*."""
    if namespace[:1] == (SUMMARIES,):
        return "summary"
    return "text" if namespace[:1] == ("users",) else "data"


def text_paths_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where the statement stands in *value*: one path, or none where there is no statement."""
    for path in ("data", "text"):
        if isinstance(value.get(path), str):
            return (path,)
    content = value.get("content")
    if isinstance(content, str):
        return ("content",)
    if isinstance(content, Mapping):
        inner = cast("Mapping[str, Any]", content)
        texts = [key for key, text in inner.items() if isinstance(text, str)]
        if "content" in texts:
            return ("content.content",)
        return tuple(f"content.{key}" for key in texts if not set(key) & set(".[]*"))
    return ()


def searchable_paths(namespace: Namespace, key: str, value: dict[str, Any]) -> tuple[tuple[str, ...] | None, bool]:
    """Return the searchable paths of an item that another program wrote, and whether it is a pinned memory.

    A memory is searchable only while it may be recalled: a statement that is proposed, rejected or no longer true is
    kept, and no search finds it. None: it is no memory, or one without a statement, and is searched as any item.
    """
    if not is_memory_namespace(namespace):
        return None, False
    memory = memory_of(Item(Ref(_NO_PARTITION, namespace, key), value, 0, _NEVER, _NEVER))
    if memory is None:
        return None, False
    recallable = memory.status == "active" and memory.valid_to is None
    return text_paths_of(value) if recallable else (), memory.pinned


class MemoryValue(dict[str, Any]):
    """The value of an item among memories, for programs that expect LangMem's shape ``{"kind", "content"}``.

    It equals the plain dict that is stored. A subscript of "kind" or "content" that is not stored returns what
    LangMem's manager would have written, so the manager reads rows of Threadkeep, LangMem's tools and other programs.
    """

    def __missing__(self, key: str) -> Any:
        if key == "kind":
            return LANGMEM_KIND
        if key == "content":
            text = _joined_texts(self)
            return {"content": text} if text else dict(self)
        raise KeyError(key)


def shown_value(namespace: Namespace, value: dict[str, Any]) -> dict[str, Any]:
    """Return *value* as programs that use the LangGraph store read it.

    A memory that Threadkeep wrote shows the kind that LangMem's manager can update; an episode gets "type": "episodic".
    """
    if not is_memory_namespace(namespace):
        return value
    shown = MemoryValue(value)
    if "trust" in value and "sources" in value and "content" not in value:
        match value.get("kind"):
            case "semantic":
                shown["kind"] = LANGMEM_KIND
            case "episodic":
                shown |= {"kind": LANGMEM_KIND, "type": "episodic"}
            case "procedural":
                shown["kind"] = SCHEMA_NAMES["procedural"]
            case _:
                pass
    return shown


def memory_of(item: Item) -> Memory | None:
    """Parse *item* as a memory; None if it has no statement.

    An invalid field is left out rather than refused: one strange row must never hide the others. A statement
    that needs an approval and names none is *proposed*, whichever program wrote the row.
    """
    value = item.value
    data = value.get("data")
    if not isinstance(data, str) and item.ref.namespace[:1] == (SUMMARIES,):
        data = value.get("summary")
    text = data.strip() if isinstance(data, str) else _joined_texts(value)
    if not text:
        return None
    get = value.get
    said_at = None
    if said := get("timestamp"):
        said_at = _moment_of_text(said) if isinstance(said, str) and len(said) <= _SHORT_TIME else moment_of(said)
    sources = sources_of(get("sources"))
    if not sources:
        thread = get("source_thread", get("thread_id"))
        sources = (Source("import", _thread(thread), at=said_at),)
    kind = _KINDS.get(told) if isinstance(told := get("kind"), str) else None
    if kind is None and "trust" in value and is_kind(told):  # of an application; other programs' words are no kinds
        kind = told
    if kind is None:
        namespace = item.ref.namespace
        episode = get("type") == "episodic" or namespace[-1:] == ("episodic",) or namespace[:1] == (SUMMARIES,)
        kind = "episodic" if episode else "semantic"
    status = cast("Status", _one_of(_STATUSES, given) or "active") if (given := get("status")) != "active" else "active"
    trust = cast("Speaker", _one_of(_SPEAKERS, given) or "import") if (given := get("trust")) != "user" else "user"
    approval = _approval_of(approved) if (approved := get("approval")) else None
    plain = trust == "user" and kind != "procedural"  # most memories are, and a call takes time
    if status == "active" and approval is None and not plain and needs_approval(kind, trust):
        status = "proposed"
    # Most memories have none of the fields further below; a search reads ten memories each time.
    return Memory(
        memory_id=MemoryId(item.ref.key),
        namespace=item.ref.namespace,
        text=text,
        kind=kind,
        status=status,
        trust=trust,
        sources=sources,
        revision=item.revision,
        created_at=said_at or item.created_at,
        updated_at=item.updated_at,
        valid_from=moment_of(begin) if (begin := get("valid_from")) else None,
        valid_to=moment_of(end) if (end := get("valid_to")) else None,
        pinned=get("pinned") is True,
        history=tuple(filter(None, map(_version_of, _rows(history)))) if (history := get("history")) else (),
        derived_from=tuple(map(MemoryId, _texts(derived))) if (derived := get("derived_from")) else (),
        approval=approval,
        merged_into=MemoryId(merged) if isinstance(merged := get("merged_into"), str) else None,
        archived=_archived_of(archived) if (archived := get("archived")) else None,
        tags=tags_of(tags) if (tags := get("tags")) else (),
        metadata=metadata_of(metadata) if (metadata := get("metadata")) else {},
    )


def value_of(memory: Memory) -> dict[str, Any]:
    """Spell *memory* as a value in its namespace's own shape; what is empty is left out."""
    first = memory.sources[0] if memory.sources else None
    value: dict[str, Any] = {
        text_path(memory.namespace): memory.text,
        "type": _prynai_type(memory),
        "kind": memory.kind,
        "status": memory.status,
        "trust": memory.trust,
        "timestamp": memory.created_at.isoformat(),
        "source_thread": first.thread_id if first else None,
        "sources": spell_sources(memory.sources),
        "valid_from": _spell(memory.valid_from),
        "valid_to": _spell(memory.valid_to),
        "pinned": memory.pinned,
        "history": [
            {
                "text": old.text,
                "valid_from": _spell(old.valid_from),
                "valid_to": _spell(old.valid_to),
                "replaced_at": old.replaced_at.isoformat(),
                "sources": spell_sources(old.sources),
                **({"approval": spell_approval(old.approval)} if old.approval else {}),
            }
            for old in memory.history
        ],
        "derived_from": list(memory.derived_from),
        "approval": spell_approval(memory.approval) if memory.approval else None,
        "merged_into": memory.merged_into,
        "tags": list(memory.tags),
        "metadata": dict(memory.metadata) or None,
    }
    if memory.namespace[:1] == (SUMMARIES,):
        value["thread_id"] = first.thread_id if first else None
    spelled = {key: field for key, field in value.items() if field not in (None, [], False)}
    return archived_value(spelled, memory.archived) if memory.archived else spelled


def archived_value(value: Mapping[str, Any], archived: Archived) -> dict[str, Any]:
    """Return *value*, in whichever shape it is, as that of a memory that was laid aside."""
    row = {"at": archived.at.isoformat(), "reason": archived.reason, "used_at": archived.used_at.isoformat()}
    return {**value, "status": "archived", "archived": row}


def head_ref(owner: Owner) -> Ref:
    """Return where the row is by which two writers of *owner*'s statements meet."""
    return Ref(owner.partition, (HEAD, owner.label), HEAD_KEY)


def put_of(memory: Memory, *, embedding: Embedding | None, expect: Expectation, ttl: timedelta | None = None) -> Put:
    """Return the put that writes *memory*; it is searchable only while it may be recalled.

    A pinned or approved memory does not expire by *ttl*.
    """
    recallable = memory.status == "active" and memory.valid_to is None
    return Put(
        memory.namespace,
        memory.memory_id,
        value_of(memory),
        index=(text_path(memory.namespace),) if recallable else (),
        embedding=embedding if recallable else None,
        ttl=None if memory.pinned or memory.approval else ttl,
        expect=expect,
    )


def sources_of(rows: object) -> tuple[Source, ...]:
    """Parse a list of sources; invalid ones are left out."""
    sources: list[Source] = []
    for row in cast("list[object]", rows) if isinstance(rows, list) else ():
        # dict first: isinstance() of Mapping takes five times as long, and a search parses ten memories.
        if not isinstance(row, dict | Mapping):
            continue
        get = cast("Mapping[str, Any]", row).get
        speaker, thread, message, turn = get("speaker"), get("thread_id"), get("message_id"), get("turn_id")
        if not isinstance(speaker, str) or speaker not in _SPEAKERS:
            continue
        at, author = get("at"), get("author")
        sources.append(
            Source(
                cast("Speaker", speaker),
                ThreadId(thread) if isinstance(thread, str) and thread else None,
                MessageId(message) if isinstance(message, str) else None,
                TurnId(turn) if isinstance(turn, str) else None,
                _moment_of_text(at) if isinstance(at, str) and len(at) <= _SHORT_TIME else moment_of(at),
                author if isinstance(author, str) else None,
            )
        )
    return tuple(sources)


def spell_sources(sources: Iterable[Source]) -> list[dict[str, Any]]:
    """Spell *sources* as JSON; what is empty is left out."""
    return [_spell_source(source) for source in sources]


def _joined_texts(value: Mapping[str, Any]) -> str:
    texts: list[str] = []
    for path in text_paths_of(value):
        found: Any = value
        for key in path.split("."):
            found = found[key]
        texts.append(found)
    return "; ".join(text.strip() for text in texts if text.strip())


def _prynai_type(memory: Memory) -> str | None:
    if memory.namespace[:1] != ("users",):
        return None
    return "episodic" if memory.kind == "episodic" else "user"


def _spell_source(source: Source) -> dict[str, Any]:
    row = {
        "speaker": source.speaker,
        "thread_id": source.thread_id,
        "message_id": source.message_id,
        "turn_id": source.turn_id,
        "at": _spell(source.at),
        "author": source.author,
    }
    return {key: field for key, field in row.items() if field is not None}


def _version_of(row: Mapping[str, Any]) -> Version | None:
    text, replaced_at = row.get("text"), moment_of(row.get("replaced_at"))
    if not isinstance(text, str) or replaced_at is None:
        return None
    sources = sources_of(row.get("sources"))
    approval = _approval_of(row.get("approval"))
    return Version(
        text, moment_of(row.get("valid_from")), moment_of(row.get("valid_to")), replaced_at, sources, approval
    )


def _approval_of(row: object) -> Approval | None:
    if not isinstance(row, Mapping):
        return None
    fields = cast("Mapping[str, Any]", row)
    by, at, proposal = fields.get("by"), moment_of(fields.get("at")), fields.get("proposal_id")
    if not isinstance(by, str) or at is None:
        return None
    return Approval(by, at, ProposalId(proposal) if isinstance(proposal, str) else None)


def spell_approval(approval: Approval) -> dict[str, Any]:
    """Spell *approval* as JSON; what is empty is left out."""
    row = {"by": approval.by, "at": approval.at.isoformat(), "proposal_id": approval.proposal_id}
    return {key: field for key, field in row.items() if field is not None}


def _archived_of(row: object) -> Archived | None:
    if not isinstance(row, Mapping):
        return None
    fields = cast("Mapping[str, Any]", row)
    at, used_at = moment_of(fields.get("at")), moment_of(fields.get("used_at"))
    match fields.get("reason"):
        case "inactive" | "budget" as reason if at is not None:
            return Archived(at, reason, used_at or at)
        case _:
            return None


def _one_of(words: frozenset[str], value: object) -> str | None:
    """Return *value* where it is one of *words*; others may have put anything there, a list for example."""
    return value if isinstance(value, str) and value in words else None


def _thread(value: object) -> ThreadId | None:
    return ThreadId(value) if isinstance(value, str) and value else None


def _rows(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast("Mapping[str, Any]", row) for row in cast("list[object]", value) if isinstance(row, dict | Mapping)]


def _texts(value: object) -> list[str]:
    return [text for text in cast("list[object]", value) if isinstance(text, str)] if isinstance(value, list) else []


def _spell(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def moment_of(value: object) -> datetime | None:
    """Read a time as others write it: ISO text, or seconds since 1970; ``None`` where it is neither."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


_moment_of_text: Final = lru_cache(maxsize=4096)(moment_of)
"""The same for a short text: a memory and its sources often have the same time, and rows are read again."""


_FLOAT_BYTES = 4


def rows_of(embedding: Embedding | None, texts: Sequence[str]) -> dict[str, Embedding]:
    """Return the vector of each of *texts*, which *embedding* holds in their order; nothing for ``None``."""
    if embedding is None:
        return {}
    return {text: row_of(embedding, place) for place, text in enumerate(texts)}


def row_of(embedding: Embedding, place: int) -> Embedding:
    """Return one vector of several."""
    width = embedding.dims * _FLOAT_BYTES
    return replace(embedding, data=embedding.data[place * width : (place + 1) * width])


def comparable(one: Embedding | None, other: Embedding | None) -> bool:
    """Return whether both are there, of the same model and length."""
    return one is not None and other is not None and (one.model, one.dims) == (other.model, other.dims)


def cosine(one: Embedding | None, other: Embedding | None) -> float:
    """Return the cosine of two vectors, in [0, 1]; 0 where they cannot be compared."""
    if one is None or other is None or not comparable(one, other):
        return 0.0
    return max(0.0, sum(a * b for a, b in zip(_floats(one), _floats(other), strict=True)))


def _floats(embedding: Embedding) -> array[float]:
    floats = array("f", embedding.data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_LONGEST_ID: Final = 1_000


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the lines of a file.

    Attributes:
        memory_ids: What is new, in the order of the lines.
        duplicates: What was there already, by id.
        refused: Lines that must not be kept, with the reason: they were rejected or forgotten before.
        left_out: How many lines are no memories: an export's first line, its audit and so on.
        faults: Lines that could not be read, with the reason; the others were taken.
        proposal_ids: What waits for approval: how to behave, and what else the policy asks about.
    """

    memory_ids: tuple[MemoryId, ...]
    duplicates: tuple[MemoryId, ...]
    refused: Mapping[int, str]
    left_out: int
    faults: Mapping[int, str]
    proposal_ids: tuple[ProposalId, ...] = ()


def json_lines(text: str) -> list[str]:
    """Return the lines of JSON Lines, without a byte order mark; only a line feed separates them."""
    lines = text.removeprefix("\ufeff").split("\n")
    return lines if lines[-1] else lines[:-1]


def parsed(line: str) -> NewMemory | None:
    """Return the memory that *line* is; ``None``: it is something else of an export.

    It may be a line of ``threadkeep owners export`` or ``threadkeep memories export``, or an object with a ``text``
    and perhaps ``kind``, ``memory_id``, ``created_at``. Its speaker becomes ``import``.

    Raises:
        InvalidInputError: It is no JSON object, or one without a statement.
    """
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError) as error:  # the latter of thousands of brackets
        msg = f"it is not valid JSON ({error})"
        raise InvalidInputError(msg) from error
    if not isinstance(row, dict):
        msg = "it is not a JSON object"
        raise InvalidInputError(msg)
    fields = cast("dict[str, Any]", row)
    exported = isinstance(fields.get("value"), dict)
    kind_of_line = fields.get("type", "memory")
    if kind_of_line == "message" or (kind_of_line != "memory" and "text" not in fields):
        return None
    value = dict(fields["value"]) if exported else fields
    key = fields.get("key") if exported else fields.get("memory_id", fields.get("id"))
    value.setdefault("timestamp", fields.get("created_at"))
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= _LONGEST_ID and "\0" not in key):
        msg = "its id must be a string of 1 to 1,000 characters without NUL"
        raise InvalidInputError(msg)
    memory = memory_of(Item(Ref(_NO_PARTITION, (MEMORIES, ""), key or ""), value, 0, _LONG_AGO, _LONG_AGO))
    if memory is None:
        msg = "its text is missing: data, text or content must have one"
        raise InvalidInputError(msg)
    if value.get("status") in ("proposed", "rejected"):
        return None
    sources = imported(memory.sources)
    return NewMemory(
        memory.text,
        memory.kind,
        sources,
        created_at=memory.created_at if memory.created_at != _LONG_AGO else None,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        pinned=memory.pinned,
        memory_id=MemoryId(key or short_digest("imported", memory.kind, same_words(memory.text))),
        history=tuple(_imported_version(old) for old in memory.history),
        tags=memory.tags,
        metadata=memory.metadata,
    )


def imported(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return *sources* as an import tells them: where and when, but on its own word."""
    return tuple(replace(source, speaker="import") for source in sources) or (Source("import"),)


def _imported_version(old: Version) -> Version:
    return replace(old, sources=imported(old.sources) if old.sources else (), approval=None)


def text_to_embed(text: str) -> str:
    """Return what is embedded for a memory with *text*: of an episode about a question, the question alone.

    Recall has just embedded the question, so the embedder's cache has the vector. A statement keeps how it begins:
    without that, it takes the place of facts in the block.
    """
    return text.removeprefix(ASKED)
