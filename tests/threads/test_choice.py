"""Where the settings say that threads are kept."""

from __future__ import annotations

import importlib.util
from datetime import timedelta

import pytest

import threadkeep
from threadkeep.errors import SettingsError
from threadkeep.settings import Settings
from threadkeep.threads.choice import check, chosen

KEY = "k" * 32


class TestChoosing:
    @pytest.mark.parametrize(
        ("environment", "kind", "location", "variable"),
        [
            ({}, "sqlite", "", ""),
            ({"LANGGRAPH_STORE_TYPE": "memory"}, "memory", "", ""),
            ({"LANGGRAPH_STORE_TYPE": "memory", "LANGGRAPH_CHECKPOINT_TYPE": "sqlite"}, "sqlite", "", ""),
            (
                {"LANGGRAPH_STORE_TYPE": "postgres", "POSTGRES_DSN": "postgresql://a"},
                "postgres",
                "postgresql://a",
                "POSTGRES_DSN",
            ),
            (
                {"LANGGRAPH_CHECKPOINT_TYPE": "redis", "REDIS_URL": "redis://a"},
                "redis",
                "redis://a",
                "REDIS_URL",
            ),
            (
                {
                    "LANGGRAPH_CHECKPOINT_TYPE": "mongodb",
                    "MONGODB_URI": "mongodb://a",
                    "LANGGRAPH_STORE_MONGODB_URI": "mongodb://b",
                    "LANGGRAPH_CHECKPOINT_MONGODB_URI": "mongodb://c",
                },
                "mongodb",
                "mongodb://c",
                "LANGGRAPH_CHECKPOINT_MONGODB_URI",
            ),
        ],
    )
    def test_as_the_memories_unless_it_is_said(
        self, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], kind: str, location: str, variable: str
    ):
        """The threads' own variable wins over the memories', and that over the common one."""
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

        choice = chosen(Settings.load())

        assert (choice.kind, choice.location, choice.variable) == (kind, location, variable)

    def test_times_and_keys(self):
        """Minutes may be fractions; no key means no encryption."""
        settings = Settings.load(
            checkpoint_type="redis", checkpoint_redis_url="redis://a", checkpoint_ttl_minutes=0.5, checkpoint_key=KEY
        )

        assert chosen(settings).ttl == timedelta(seconds=30)
        assert chosen(settings).keys == KEY
        assert KEY not in repr(settings)


class TestRefusing:
    @pytest.mark.parametrize(
        ("environment", "variable", "says"),
        [
            ({"LANGGRAPH_CHECKPOINT_TYPE": "postgres"}, "LANGGRAPH_CHECKPOINT_POSTGRES_DSN", "where the server is"),
            ({"LANGGRAPH_CHECKPOINT_TYPE": "redis"}, "LANGGRAPH_CHECKPOINT_REDIS_URL", "where the server is"),
            ({"LANGGRAPH_CHECKPOINT_TYPE": "mongodb"}, "LANGGRAPH_CHECKPOINT_MONGODB_URI", "where the server is"),
            ({"LANGGRAPH_CHECKPOINT_TTL_MINUTES": "5"}, "LANGGRAPH_CHECKPOINT_TTL_MINUTES", "in sqlite cannot expire"),
            ({"LANGGRAPH_CHECKPOINT_TTL_MINUTES": "soon"}, "LANGGRAPH_CHECKPOINT_TTL_MINUTES", "minutes"),
            ({"THREADKEEP_CHECKPOINT_KEY": "hunter2"}, "THREADKEEP_CHECKPOINT_KEY", "openssl rand"),
            ({"THREADKEEP_CHECKPOINT_TIMEOUT_SECONDS": "0"}, "THREADKEEP_CHECKPOINT_TIMEOUT_SECONDS", "seconds"),
            ({"LANGGRAPH_CHECKPOINT_TYPE": "paper"}, "LANGGRAPH_CHECKPOINT_TYPE", "mongodb"),
        ],
    )
    def test_what_cannot_be_stops_the_start(
        self, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], variable: str, says: str
    ):
        """One sentence that names the variable, and no secret; nothing is kept in memory instead."""
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

        with pytest.raises(SettingsError, match=variable) as caught:
            threadkeep.open()

        assert says in str(caught.value)
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize(
        ("kind", "module", "extra"),
        [
            ("redis", "redisvl", "redis-checkpoints"),
            ("postgres", "psycopg_pool", "postgres"),
            ("mongodb", "pymongo", "mongodb"),
        ],
    )
    def test_a_missing_package_is_named_by_its_extra(
        self, monkeypatch: pytest.MonkeyPatch, kind: str, module: str, extra: str
    ):
        """At the start where threads were told to be there, else when the checkpointer is asked for: items go on."""
        real = importlib.util.find_spec
        monkeypatch.setattr("threadkeep.threads.choice.find_spec", lambda name: None if name == module else real(name))
        url = {"redis_url": "redis://a", "postgres_dsn": "postgresql://a", "mongodb_uri": "mongodb://a"}

        with pytest.raises(SettingsError, match=rf"{kind}, which needs .* threadkeep\[{extra}\]"):
            check(Settings.load(checkpoint_type=kind, **{f"checkpoint_{name}": value for name, value in url.items()}))
        with pytest.raises(SettingsError, match=f"as memories are, in {kind}"):
            chosen(Settings.load(store_type=kind, **{f"store_{name}": value for name, value in url.items()}))

    def test_under_a_langgraph_server_nothing_is_ours_to_keep(self, monkeypatch: pytest.MonkeyPatch):
        """It brings its own checkpointer, so what is said of ours does not count."""
        monkeypatch.setenv("LANGGRAPH_DEV", "true")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "postgres")

        with threadkeep.open("memory://") as tk:
            assert tk.checkpointer is None
