"""What a thread is called where checkpoints are kept, and who may go in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, CheckpointTuple

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId, digest
from threadkeep.threads.fencing import epoch_of
from threadkeep.threads.thread_ownership import Binder

_OWNER_KEY: Final = "threadkeep_owner"
_THREAD_KEY: Final = "threadkeep_thread"


@dataclass(frozen=True, slots=True)
class Admission:
    """Turns the threads of runs into those of the database and back, and refuses a thread of somebody else.

    Attributes:
        names: How threads are called there.
        binder: Who knows whose thread it is; ``None``: nobody is asked.
        whose: Says whose run a configuration is of, ``None`` for nobody's.
        owner: Whose threads the view is for; ``None``: everybody's.
    """

    names: Names
    binder: Binder | None
    whose: Callable[[RunnableConfig], Owner | None]
    owner: Owner | None = None

    async def admitted(self, config: RunnableConfig, *, writing: bool) -> tuple[ThreadId, RunnableConfig]:
        """Return the thread of *config*, and *config* for the real saver.

        Raises:
            OwnerMismatchError: It is a thread of somebody else.
            PartitionErasedError: Its owner was erased since the run began.
        """
        configurable = configurable_of(config)
        thread_id = thread_id_from(configurable.get("thread_id"))
        if self.binder and self.owner:
            if writing:
                await self.binder.enter(thread_id, self.owner, epoch=epoch_of(configurable))
        elif self.binder and (owner := self.whose(config)):
            if writing:
                await self.binder.bind(thread_id, owner, epoch=epoch_of(configurable))
            else:
                await self.binder.check(thread_id, owner)
        if not writing:
            return thread_id, with_thread(config, self.name(thread_id))
        return thread_id, self._to_write(configurable, thread_id)

    def admitted_at_once(self, config: RunnableConfig) -> tuple[ThreadId, RunnableConfig] | None:
        """Return what :meth:`admitted` does to whoever writes; ``None``: somebody has to be asked whose thread it is.

        This is called from any thread.
        """
        configurable = configurable_of(config)
        thread_id = thread_id_from(configurable.get("thread_id"))
        owner = self.owner or (self.whose(config) if self.binder else None)
        if self.binder and owner:
            epoch, scoped = epoch_of(configurable), self.owner is not None
            if not self.binder.known(thread_id, owner, epoch=epoch, scoped=scoped):
                return None
        return thread_id, self._to_write(configurable, thread_id)

    def begins_at_once(self, config: RunnableConfig) -> tuple[ThreadId, RunnableConfig, str | None] | None:
        """Return what :meth:`admitted` does to a run that begins by reading, and its owner's epoch.

        This is called from any thread. ``None``: somebody has to be asked.
        """
        thread_id = thread_id_from(configurable_of(config).get("thread_id"))
        owner, epoch = self.owner or self.whose(config), None
        if self.binder and owner:
            epoch = self.binder.epoch_at_once(owner)
            if epoch is None or not self._checked(thread_id, owner):
                return None
        return thread_id, with_thread(config, self.name(thread_id)), epoch

    def still_reads(self, config: RunnableConfig, thread_id: ThreadId) -> bool:
        """Whether :meth:`admitted` would still let this one read, without asking anybody; from any thread."""
        owner = self.owner or self.whose(config)
        return owner is None or self._checked(thread_id, owner)

    def _checked(self, thread_id: ThreadId, owner: Owner) -> bool:
        return self.owner is not None or self.binder is None or bool(self.binder.checked(thread_id, owner))

    def _to_write(self, configurable: dict[str, Any], thread_id: ThreadId) -> RunnableConfig:
        # No more than that: savers put what else is there into the metadata, where it would be kept in the clear.
        parts = {key: configurable[key] for key in ("checkpoint_ns", "checkpoint_id") if key in configurable}
        return {"configurable": {"checkpoint_ns": "", **parts, "thread_id": self.name(thread_id)}}

    async def epoch(self, config: RunnableConfig) -> str | None:
        """Return the epoch of whose run *config* is; ``None``: it is nobody's, or that cannot be told now."""
        owner = self.owner or self.whose(config)
        return await self.binder.epoch(owner) if self.binder and owner else None

    async def let_go(self, thread_id: ThreadId) -> None:
        """Forget whose thread it was."""
        if self.binder and self.owner:
            await self.binder.leave(thread_id, self.owner)
        elif self.binder:
            await self.binder.unbind(thread_id)

    def name(self, thread_id: ThreadId) -> str:
        """Return how the thread is stored."""
        return self.names.of(thread_id, self.owner)

    def notes(self, thread_id: ThreadId, name: str) -> dict[str, str]:
        """Return what is kept in a checkpoint's metadata to list by, and to tell the id of a name that does not."""
        return {**self.notes_of_owner(), **({_THREAD_KEY: spelled(thread_id)} if is_digest(name) else {})}

    def notes_of_owner(self) -> dict[str, str]:
        """Return what is kept in the metadata of a scoped view's checkpoints, and listed by."""
        return {_OWNER_KEY: self.names.note_of(self.owner)} if self.owner else {}

    def sieve(
        self, wanted: dict[str, Any], *, able: Callable[[str], bool], everybodys: bool
    ) -> tuple[dict[str, Any] | None, Callable[[CheckpointTuple], bool] | None]:
        """Return which filter the database is asked by, and what is left to be told here.

        Args:
            wanted: The metadata that is asked for.
            able: Whether the database can be asked by this key of it.
            everybodys: Whether threads of scoped views are left out.
        """
        asked = {key: value for key, value in wanted.items() if able(key)}
        rest = {key: value for key, value in wanted.items() if key not in asked}

        def keeps(one: CheckpointTuple) -> bool:
            if everybodys and not self.names.is_unscoped(configurable_of(one.config)["thread_id"]):
                return False
            metadata = cast("dict[str, Any]", one.metadata)
            return all(key in metadata and metadata[key] == value for key, value in rest.items())

        return asked or None, keeps if rest or everybodys else None

    def outward(self, found: CheckpointTuple, thread_id: ThreadId | None = None) -> CheckpointTuple:
        """Return *found* as a run sees it: with the id as it was given, and without notes."""
        metadata = dict(found.metadata)
        metadata.pop(_OWNER_KEY, None)
        noted = metadata.pop(_THREAD_KEY, None)
        given = thread_id or given_id(str(noted or configurable_of(found.config)["thread_id"]))
        return found._replace(
            config=with_thread(found.config, given),
            metadata=cast("CheckpointMetadata", metadata),
            parent_config=with_thread(found.parent_config, given) if found.parent_config else None,
        )


def configurable_of(config: RunnableConfig) -> dict[str, Any]:
    """Return what *config* says of the thread and the run."""
    return config.get("configurable", {})


def place_of(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread's name and the namespace of *config*, which is one for the real saver."""
    configurable = configurable_of(config)
    return configurable["thread_id"], str(configurable.get("checkpoint_ns") or "")


def with_thread(config: RunnableConfig, thread_id: str) -> RunnableConfig:
    """Return *config* for another thread."""
    return {**config, "configurable": {**configurable_of(config), "thread_id": thread_id}}


MAX_THREAD_ID_CHARACTERS: Final = 1000

_MARK: Final = "~tk~"
_SCOPED: Final = f"{_MARK}~"
_DIGESTED: Final = f"{_MARK}="
_UNBINDABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
_ESCAPED_ONES: Final = re.compile(r"[\x00%~\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"%([0-9a-f]{6})")


def thread_id_from(value: object) -> ThreadId:
    """Return *value* as a thread id; what is not a text (a UUID, a number) counts by its ``str()``.

    Raises:
        InvalidInputError: There is none, or it is empty.
        TooLargeError: It has more than 1,000 characters.
    """
    text = "" if value is None else str(value)
    if not text:
        msg = "The thread id is empty; give configurable.thread_id, the id of the conversation."
        raise InvalidInputError(msg)
    if len(text) > MAX_THREAD_ID_CHARACTERS:
        msg = f"The thread id has {len(text):,} characters; at most {MAX_THREAD_ID_CHARACTERS:,} are allowed."
        raise TooLargeError(msg, characters=len(text))
    return ThreadId(text)


@dataclass(frozen=True, slots=True)
class Names:
    """How the threads of one deployment are called where the checkpoints are kept.

    Args:
        key_prefix: Tells deployments that share one database apart; ``""``: there is one only.
        longest: The most bytes of a name that the database can find a thread by; ``None``: any.
    """

    key_prefix: str = ""
    longest: int | None = None

    def of(self, thread_id: str, owner: Owner | None) -> str:
        """Return how *thread_id* is stored: as it is, where the database can hold and tell it.

        A view that is scoped to *owner* stores a digest of both. It holds an unescaped ``~`` behind the
        mark, so it is no other thread's name.
        """
        deployment = (self.key_prefix,) if self.key_prefix else ()
        if owner is not None:
            return _SCOPED + digest("thread", *deployment, owner.tenant, owner.user_id, thread_id).hex()
        name = spelled(thread_id)
        if not deployment and (self.longest is None or len(name.encode()) <= self.longest):
            return name
        return f"{self._digested}{digest('thread', *deployment, thread_id).hex()}"

    def note_of(self, owner: Owner) -> str:
        """Return what tells *owner*'s scoped threads in a list of all."""
        whose = owner.partition.digest.hex()
        return digest("owner", self.key_prefix, whose).hex() if self.key_prefix else whose

    def is_unscoped(self, name: str) -> bool:
        """Whether an unscoped view of this deployment stored *name*."""
        if self.key_prefix:
            return name.startswith(self._digested)
        return not name.startswith(_SCOPED) and (not name.startswith(_DIGESTED) or name.startswith(self._digested))

    @property
    def _digested(self) -> str:
        return f"{_DIGESTED}{digest('deployment', self.key_prefix).hex()[:16]}-"


def is_digest(name: str) -> bool:
    """Whether *name* does not say which thread it is of, so that the id has to be noted beside it."""
    return name.startswith((_SCOPED, _DIGESTED))


def given_id(name: str) -> str:
    """Return the thread id that :func:`spelled` made *name* of."""
    if not name.startswith(_MARK):
        return name
    return _ESCAPE.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), name.removeprefix(_MARK))


def spelled(thread_id: str) -> str:
    """Return *thread_id* as a text that every database can hold: as it is, where that can be."""
    if not thread_id.startswith(_MARK) and not _UNBINDABLE.search(thread_id):
        return thread_id
    return _MARK + _ESCAPED_ONES.sub(lambda found: f"%{ord(found[0]):06x}", thread_id)
