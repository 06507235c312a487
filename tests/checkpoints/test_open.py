"""The checkpointer as an application gets it: by its settings, through ``threadkeep.open()``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.checkpoints.checkpoints import KEY, config_of, echo_graph
from tests.checkpoints.conftest import Places
from tests.checkpoints.dumps import dump_of
from threadkeep import Owner, Threadkeep
from threadkeep.settings import Settings

ANA = Owner("ana@x.org")
LOCATIONS = {"postgres": "postgres_dsn", "redis": "redis_url", "mongodb": "mongodb_uri", "sqlite": "sqlite_path"}

lasting = pytest.mark.parametrize("kind", list(LOCATIONS), indirect=True)


def opened(kind: str, places: Places, folder: Path, **options: Any) -> Threadkeep:
    """Open a memory in SQLite whose threads are kept in *kind*."""
    places.path.parent.mkdir(exist_ok=True)
    where = places.path if kind == "sqlite" else places.url(kind)
    settings = Settings.load(
        checkpoint_type=kind,
        store_sqlite_path=folder / "memory.sqlite3",
        embeddings_provider="none",
        **{f"checkpoint_{LOCATIONS[kind]}": where},
        **options,
    )
    return threadkeep.open(settings=settings)


@lasting
class TestOpening:
    async def test_a_thread_goes_on_after_the_program_ended(self, kind: str, places: Places, tmp_path: Path):
        """Unscoped and scoped, sync and async; the key is the settings', and nothing is in the clear."""
        for said in ("first", "second"):
            async with opened(kind, places, tmp_path, checkpoint_key=KEY) as tk:
                await tk.ready()
                await echo_graph(tk.checkpointer).ainvoke({"words": [f"canary {said}"]}, config_of("job-1"))
                echo_graph(tk.for_owner(ANA).checkpointer).invoke({"words": [said]}, config_of("job-1"))

        with opened(kind, places, tmp_path, checkpoint_key=KEY) as tk:
            everybodys = echo_graph(tk.checkpointer).get_state(config_of("job-1")).values["words"]
            anas = echo_graph(tk.for_owner(ANA).checkpointer).get_state(config_of("job-1")).values["words"]
        assert everybodys == ["canary first", "CANARY FIRST", "canary second", "CANARY SECOND"]
        assert anas == ["first", "FIRST", "second", "SECOND"]
        dump = dump_of(kind, path=places.path, url=places.url(kind))
        assert b"canary" not in dump.lower()

    def test_an_erased_owners_threads_are_gone(self, kind: str, places: Places, tmp_path: Path):
        """Scoped ones, and those that were bound by the run's user id; another's stay."""
        with opened(kind, places, tmp_path) as tk:
            echo_graph(tk.for_owner(ANA).checkpointer).invoke({"words": ["canary scoped"]}, config_of("1"))
            for user_id in ("ana@x.org", "bob"):
                graph = echo_graph(tk.checkpointer)
                graph.invoke({"words": [f"canary {user_id}"]}, config_of(f"of-{user_id}", user_id=user_id))

            tk.sync.owners.erase(owner=ANA)

            bobs = echo_graph(tk.checkpointer).get_state(config_of("of-bob")).values["words"]
        assert bobs == ["canary bob", "CANARY BOB"]
        dump = dump_of(kind, path=places.path, url=places.url(kind))
        assert b"canary bob" in dump
        assert b"canary scoped" not in dump
        assert b"canary ana" not in dump
