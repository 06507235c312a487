"""What a batch does to the rows that are there. Pure rules: a backend reads, decides by this, and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from threadkeep.errors import RevisionConflictError
from threadkeep.storage.row import NO_PATHS, Change, Content, Place, Row, spelled


class Known(NamedTuple):
    """What must be known of a row that is there, expired or not; the fields are those of a row."""

    revision: int
    created_at: int
    ttl: int | None
    expires_at: int | None
    paths: str


class Touched(NamedTuple):
    """A row that lives on, with the batch's revision."""

    expires_at: int | None
    namespace: str
    key: str


@dataclass(slots=True)
class Outcome:
    """What is to be written, all of it or nothing.

    Attributes:
        rows: To be written whole.
        touched: To be given a new revision and a new end.
        deleted: To be removed.
        removed: What was searchable and is no longer: for the change log.
    """

    rows: list[Row] = field(default_factory=list[Row])
    touched: list[Touched] = field(default_factory=list[Touched])
    deleted: list[Place] = field(default_factory=list[Place])
    removed: list[Place] = field(default_factory=list[Place])


def decide(changes: Iterable[Change], known: Mapping[Place, Known], *, revision: int, now: int) -> Outcome:
    """Return what *changes* come to.

    Args:
        changes: At most one for each place.
        known: The rows that are there at the places of the changes.
        revision: The partition's sequence after this commit.
        now: The storage's time, in microseconds.

    Raises:
        RevisionConflictError: An expectation is not met.
    """
    outcome = Outcome()
    for change in changes:
        row = known.get(change.place)
        alive = row if row is not None and (row.expires_at is None or row.expires_at > now) else None
        check_expectation(change, alive)
        searchable = row is not None and row.paths != NO_PATHS
        if change.content is not None:
            outcome.rows.append(_row(change.place, change.content, alive, revision, now))
            if searchable and change.content.paths == NO_PATHS:
                outcome.removed.append(change.place)
        elif change.kind == "delete":
            if row is not None:
                outcome.deleted.append(change.place)
            if searchable:
                outcome.removed.append(change.place)
        elif alive is not None:
            outcome.touched.append(Touched(None if alive.ttl is None else now + alive.ttl, *change.place))
    return outcome


def check_expectation(change: Change, alive: Known | None) -> None:
    """Refuse *change* where the row that is there, *alive*, is not what it expects.

    Raises:
        RevisionConflictError: It is not.
    """
    if change.expect in ("any", alive.revision if alive else "absent"):
        return
    namespace, key = spelled(change.place)
    found = f"at revision {alive.revision}" if alive else "absent"
    expected = "absent" if change.expect == "absent" else f"at revision {change.expect}"
    msg = f"An item is {found} where it should be {expected}; nothing was written. Read it again and decide anew."
    raise RevisionConflictError(msg, namespace=namespace, key=key, revision=alive.revision if alive else None)


def _row(place: Place, content: Content, alive: Known | None, revision: int, now: int) -> Row:
    created_at = content.created_at
    if created_at is None:
        created_at = alive.created_at if alive else now
    expires_at = content.expires_at
    if expires_at is None and content.ttl is not None:
        expires_at = now + content.ttl
    return Row(
        *place,
        value=content.value,
        revision=revision,
        created_at=created_at,
        updated_at=now if content.updated_at is None else content.updated_at,
        paths=content.paths,
        model=content.model,
        dims=content.dims,
        embedding=content.embedding,
        ttl=content.ttl,
        expires_at=expires_at,
        due_kind=content.due_kind,
        due_at=content.due_at,
    )
