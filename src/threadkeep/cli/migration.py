"""``threadkeep migrate``: the tables of this version, changed by their owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import DataDir, Json, emit, load_settings, missing_database, wait
from threadkeep.cli.storage import Url
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from threadkeep.settings import Settings


def migrate(
    url: Url = None,
    data_dir: DataDir = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; the exit code is 1 if something is to be migrated.")
    ] = False,
    json: Json = False,
) -> None:
    """Create the tables of the storage and of the checkpointer, or migrate them to this version.

    Current tables stay unchanged. With THREADKEEP_MIGRATE=check only this command changes tables. With
    THREADKEEP_MIGRATION_POSTGRES_DSN it works as that user, and admits the user of the memories' URL.
    """
    import threadkeep
    from threadkeep.registry import resolve_settings
    from threadkeep.storage.interface import ServerUsers

    settings = load_settings(data_dir).model_copy(update={"migrate": "check" if check else "auto", "capture": "off"})
    resolved = resolve_settings(url, settings)
    if check and (missing := missing_database(resolved)) is not None:
        msg = f"The database {missing} does not exist; correct the URL, or run threadkeep migrate."
        raise InvalidInputError(msg)
    running = None if check else _running_user(resolved)
    if running is not None:
        fields = [name for name in ("store_postgres_dsn", "checkpoint_postgres_dsn") if _url(resolved, name) == running]
        resolved = resolved.model_copy(update=dict.fromkeys(fields, resolved.migration_postgres_dsn))

    async def migrated(running: str | None) -> tuple[str, str | None]:
        async with threadkeep.open(settings=resolved, embedder="none") as tk:
            place, user = (await tk.ready()).storage, None
            backend = tk.app.backend
            if running is not None and isinstance(backend, ServerUsers):
                user = await tk.app.event_loop.run(backend.admit(running))
            return place, user

    (storage, user), checkpointer = wait(migrated(running)), settings.checkpoint_type
    threads = f", and so is the checkpointer ({checkpointer})" if checkpointer else ""
    admitted = f" {user} may use it." if user else ""
    emit(
        {"storage": storage, "checkpointer": checkpointer, "migrated": not check, "user": user},
        [f"{storage} is up to date{threads}.{admitted}"],
        json=json,
    )


def _running_user(settings: Settings) -> str | None:
    """Return the URL of the processes' user if another user migrates."""
    if settings.store_type != "postgres" or settings.migration_postgres_dsn is None:
        return None
    return _url(settings, "store_postgres_dsn")


def _url(settings: Settings, field: str) -> str | None:
    value: SecretStr | None = getattr(settings, field)
    return None if value is None else value.get_secret_value()
