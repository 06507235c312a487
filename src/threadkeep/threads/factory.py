"""Makes the checkpointer that the settings choose; the only one who knows every backend."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.event_loop import EventLoopThread
from threadkeep.identity import Owner
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.choice import CheckpointSettings, chosen
from threadkeep.threads.codec import Cipher
from threadkeep.threads.leases import LeaseTerms
from threadkeep.threads.savers import ANSWER

if TYPE_CHECKING:
    from datetime import timedelta

    from langchain_core.runnables import RunnableConfig

    from threadkeep.settings import Settings
    from threadkeep.threads.base import Backend
    from threadkeep.threads.codec import AllowedType
    from threadkeep.threads.postgres import Pool
    from threadkeep.threads.thread_ownership import Binder


def create_checkpointer(
    settings: Settings, *, home: EventLoopThread, pool: Callable[[str, str], Pool], binder: Binder | None = None
) -> ThreadkeepCheckpointer:
    """Return the checkpointer that *settings* choose, without I/O.

    Args:
        settings: What was set.
        home: The loop that it lives on.
        pool: Gives the connections to the PostgreSQL of a DSN, and of the variable that says it.
        binder: Who knows whose thread it is.

    Raises:
        SettingsError: What they choose cannot be; the message names the variable.
    """
    choice = chosen(settings)
    return checkpointer_over(
        backend_of(choice, path=settings.checkpoint_path, pool=pool, timeout=settings.checkpoint_timeout),
        home=home,
        binder=binder,
        key_prefix=settings.store_key_prefix,
        cipher=Cipher(choice.keys) if choice.keys else None,
        timeout=settings.checkpoint_timeout,
        terms=LeaseTerms(settings.multitask_strategy, settings.lease_time, settings.queue_time),
    )


def checkpointer_over(
    backend: Backend,
    *,
    home: EventLoopThread,
    binder: Binder | None = None,
    whose: Callable[[RunnableConfig], Owner | None] | None = None,
    allowed_types: Collection[AllowedType] = (),
    key_prefix: str = "",
    cipher: Cipher | None = None,
    timeout: timedelta = ANSWER,
    terms: LeaseTerms | None = None,
) -> ThreadkeepCheckpointer:
    """Return a checkpointer over *backend*, with the methods that it has; see :class:`ThreadkeepCheckpointer`."""
    return ThreadkeepCheckpointer(
        backend,
        home=home,
        binder=binder,
        whose=whose,
        allowed_types=allowed_types,
        key_prefix=key_prefix,
        cipher=cipher,
        timeout=timeout,
        terms=terms,
    )


def backend_of(
    choice: CheckpointSettings, *, path: Path, pool: Callable[[str, str], Pool], timeout: timedelta = ANSWER
) -> Backend:
    """Return the place that *choice* names, not yet opened.

    Args:
        choice: What the settings say.
        path: The file of ``sqlite``.
        pool: Gives the connections to the PostgreSQL of a DSN, and of the variable that says it.
        timeout: How long an answer is waited for.
    """
    match choice.kind:
        case "memory":
            from threadkeep.threads.in_memory import MemoryCheckpoints

            return MemoryCheckpoints()
        case "sqlite":
            from threadkeep.threads.sqlite import SqliteCheckpoints

            return SqliteCheckpoints(path)
        case "postgres":
            from threadkeep.threads.postgres import PostgresCheckpoints

            return PostgresCheckpoints(pool(choice.location, choice.variable))
        case "redis":
            from threadkeep.threads.redis import RedisCheckpoints

            return RedisCheckpoints(choice.location, variable=choice.variable, ttl=choice.ttl, timeout=timeout)
        case _:
            from threadkeep.threads.mongodb import MongoCheckpoints

            return MongoCheckpoints(choice.location, variable=choice.variable, ttl=choice.ttl, timeout=timeout)
