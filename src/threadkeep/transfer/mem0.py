"""Read an export of mem0: what its ``get_all`` returned, its platform's export, or one memory a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, ThreadId, short_digest
from threadkeep.memories.codec import MEMORIES, value_of
from threadkeep.memories.models import Memory, Source
from threadkeep.transfer.importer import ForeignItem
from threadkeep.transfer.models import LeftOut

_LISTS: Final = ("results", "memories")
_KEPT: Final = ("metadata", "categories", "agent_id", "app_id")
_PROCEDURAL: Final = "procedural_memory"


class Mem0Export:
    """The file at *path*: a JSON list, an object with a list under ``results`` or ``memories``, or JSON Lines."""

    def __init__(self, path: str) -> None:
        self.name: str = f"mem0:{path}"
        self._path = Path(path)
        self._rows: list[Any] = []

    async def connect(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.connect`."""
        try:
            text = await asyncio.to_thread(self._path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{self._path} cannot be read ({type(error).__name__}); give the JSON file that mem0 exported."
            raise InvalidInputError(msg) from error
        self._rows = _rows(text, self._path)

    async def total(self) -> int | None:
        """See :meth:`threadkeep.transfer.sources.Reader.total`."""
        return len(self._rows)

    async def items(self) -> AsyncGenerator[ForeignItem | LeftOut]:
        """See :meth:`threadkeep.transfer.sources.Reader.items`."""
        for item in sorted(map(_item, self._rows), key=lambda item: item.namespace):
            yield item

    async def close(self) -> None:
        """See :meth:`threadkeep.transfer.sources.Reader.close`."""
        self._rows = []


def _rows(text: str, path: Path) -> list[Any]:
    try:
        read: object = json.loads(text)
    except ValueError:
        read = list(_lines(text, path)) or None
    if isinstance(read, dict):
        found = cast("dict[str, object]", read)
        read = next((found[name] for name in _LISTS if isinstance(found.get(name), list)), None)
    if not isinstance(read, list):
        msg = f"{path} is no export of mem0: a list of memories, or an object with one under results or memories."
        raise InvalidInputError(msg)
    return cast("list[Any]", read)


def _lines(text: str, path: Path) -> Iterator[object]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                msg = f"{path} is neither JSON nor JSON Lines: line {number} cannot be read ({error})."
                raise InvalidInputError(msg) from error


def _item(row: object) -> ForeignItem | LeftOut:
    """Return a memory of mem0 as a memory of ours; its user id is an id, and no label, so nothing is guessed."""
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", row) if isinstance(row, Mapping) else {}
    key, text, user = fields.get("id"), fields.get("memory"), fields.get("user_id")
    shown = str(key)[:80]
    if not isinstance(text, str) or not text.strip():
        return LeftOut((), shown, "it has no text under memory")
    if not isinstance(user, str) or not user:
        return LeftOut((), shown, "it belongs to no user (user_id)")
    try:
        owner = Owner(user)
        created_at = _moment(fields.get("created_at"))
        updated_at = _moment(fields.get("updated_at")) if fields.get("updated_at") else created_at
        ends_at = _end(fields.get("expiration_date"))
    except ValueError as error:
        return LeftOut((), shown, f"it cannot be read ({error})")
    memory_id = key if isinstance(key, str) and key else short_digest("mem0", user, text)
    run = fields.get("run_id")
    metadata = fields.get("metadata")
    procedural = isinstance(metadata, Mapping) and cast("Mapping[str, Any]", metadata).get("memory_type") == _PROCEDURAL
    namespace = (MEMORIES, owner.label)
    memory = Memory(
        memory_id=MemoryId(memory_id),
        namespace=namespace,
        text=text.strip(),
        kind="procedural" if procedural else "semantic",
        status="active",
        trust="import",
        sources=(Source("import", ThreadId(run) if isinstance(run, str) and run else None, at=created_at),),
        revision=0,
        created_at=created_at,
        updated_at=updated_at,
    )
    more = {name: fields[name] for name in _KEPT if fields.get(name)}
    return ForeignItem(
        namespace,
        memory_id,
        {**value_of(memory), **more},
        created_at,
        updated_at,
        max(ends_at - updated_at, timedelta(seconds=1)) if ends_at else None,
        ends_at,
    )


def _moment(text: object) -> datetime:
    if not isinstance(text, str):
        msg = "a time is missing"
        raise ValueError(msg)  # noqa: TRY004 - the caller says which memory
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _end(text: object) -> datetime | None:
    """Return the end of the day that mem0 calls the expiration date."""
    if not text:
        return None
    return datetime.combine(_moment(text).date(), time.max, UTC)
