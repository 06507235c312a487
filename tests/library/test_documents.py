"""The documents' functions with a store that is away, their positional calls, and settings as people write them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

import threadkeep
from threadkeep import functions
from threadkeep.errors import InvalidInputError, ModelUnavailableError, SettingsError
from threadkeep.fact_extraction import telemetry
from threadkeep.registry import create_embedder
from threadkeep.settings import Settings, resolved, variables
from threadkeep.testing import HashingEmbedder

ANA = "ana.maria@x.org"


class DownStore(InMemoryStore):
    """A stock store with a server that is gone."""

    def batch(self, ops: Any) -> Any:
        msg = "connection refused"
        raise ConnectionError(msg)

    async def abatch(self, ops: Any) -> Any:
        return self.batch(ops)


@pytest.fixture(params=["ours", "stock", "none"])
def down(request: pytest.FixtureRequest) -> Iterator[BaseStore | None]:
    """Stores that are away."""
    if request.param == "ours":
        with threadkeep.open("postgresql://nobody@127.0.0.1:1/none", embedder="none") as tk:
            yield tk.store
    else:
        yield DownStore() if request.param == "stock" else None


class TestStoreAway:
    async def test_functions_degrade_log_and_count(self, down: BaseStore | None, caplog: pytest.LogCaptureFixture):
        """A turn goes on without memory."""
        before = telemetry.counts()
        telemetry._logged_at.clear()
        with caplog.at_level(logging.WARNING, "threadkeep"):
            assert await functions.store_put_memory(down, ANA, "likes tea") == ""
            assert await functions.store_put_summary(down, ANA, "about tea") == ""
            assert await functions.store_get_cross_thread_context(down, ANA) == ""

        for name in ("store_put_memory", "store_put_summary", "store_get_cross_thread_context"):
            assert telemetry.counts()[f"{name}.degraded"] == before.get(f"{name}.degraded", 0) + 1
            assert f"{name} failed and was left out" in caplog.text
        assert "tea" not in caplog.text

    def test_a_search_finds_nothing(self, down: BaseStore | None):
        before = telemetry.counts().get("search_relevant_memories.degraded", 0)

        assert functions.search_relevant_memories(down, ANA, "tea") == []
        assert telemetry.counts()["search_relevant_memories.degraded"] == before + 1

    async def test_wrong_arguments_stay_errors(self, down: BaseStore | None):
        with pytest.raises(InvalidInputError, match="The data is empty"):
            await functions.store_put_memory(down, ANA, " ")
        with pytest.raises(InvalidInputError):
            await functions.store_get_cross_thread_context(down, "")


class TestPositionalCalls:
    async def test_they_are_accepted(self):
        """As documents 000 to 003 and their programs write them."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            key = await functions.store_put_memory(tk.store, ANA, "likes green tea", "thread-1")
            await functions.store_put_summary(tk.store, ANA, "talked about tea", "thread-1")
            text = await functions.store_get_cross_thread_context(tk.store, ANA, 1, 1)
            hits = functions.search_relevant_memories(tk.store, ANA, "green tea", 4, 4)
            label = functions.sanitize_namespace_label(ANA)
            item = await tk.store.aget(("memories", label), key)

        assert item is not None
        assert item.value["source_thread"] == "thread-1"
        assert "likes green tea" in text
        assert "talked about tea" in text
        message = functions.memory_context_system_message(hits, 900)
        assert message is not None
        assert "likes green tea" in message.text


class TestSettings:
    @pytest.mark.parametrize(
        ("variable", "value", "field", "expected"),
        [
            ("LANGGRAPH_STORE_TYPE", "Postgres", "store_type", "postgres"),
            ("LANGGRAPH_STORE_TYPE", " MEMORY ", "store_type", "memory"),
            ("LANGGRAPH_STORE_TYPE", "   ", "store_type", None),
            ("LANGGRAPH_STORE_KEY_PREFIX", "  team-a ", "store_key_prefix", "team-a"),
            ("LANGGRAPH_CHECKPOINT_TYPE", "SQLite", "checkpoint_type", "sqlite"),
            ("THREADKEEP_SQLITE_SYNCHRONOUS", "normal", "sqlite_synchronous", "NORMAL"),
            ("THREADKEEP_LANGUAGE", "German", "language", "german"),
            ("LANGGRAPH_STORE_MAX_MEMORIES", " 7 ", "store_max_memories", 7),
            ("FACT_EXTRACTION_MODEL", " openai:gpt-5-mini\n", "fact_extraction_model", "openai:gpt-5-mini"),
            ("THREADKEEP_STORE_TYPE", "redis", "store_type", "redis"),
            ("THREADKEEP_MAX_CONTEXT_TOKENS", "9000", "max_context_tokens", 9000),
            ("THREADKEEP_ENABLE_FACT_EXTRACTION", "true", "enable_fact_extraction", True),
        ],
    )
    def test_case_and_blanks_do_not_count(
        self, variable: str, value: str, field: str, expected: object, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv(variable, value)

        assert getattr(Settings.load(), field) == expected

    def test_each_has_a_name_of_one_scheme(self):
        """Those of services and servers that others named have no second name."""
        named_by_others = re.compile("COHERE_|CO_API|PINECONE_|LANGSMITH_|LANGGRAPH_DEV")

        assert not [
            names
            for names in variables()
            if not named_by_others.match(names[0]) and not any(name.startswith("THREADKEEP_") for name in names)
        ]

    def test_a_documents_name_wins_over_ours(self, monkeypatch: pytest.MonkeyPatch):
        """Of several names of one setting the first of its row counts."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "memory")
        monkeypatch.setenv("THREADKEEP_STORE_TYPE", "redis")

        assert Settings.load().store_type == "memory"

    @pytest.mark.parametrize("value", ["true", "True", " TRUE "])
    def test_true_turns_extraction_on(self, value: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ENABLE_FACT_EXTRACTION", value)

        assert functions.is_fact_extraction_enabled()

    @pytest.mark.parametrize("value", ["", "false", "False", "0", "no", "off", " "])
    def test_words_of_refusal_leave_it_off(self, value: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ENABLE_FACT_EXTRACTION", value)

        assert not functions.is_fact_extraction_enabled()

    @pytest.mark.parametrize("value", ["1", "yes", "on", "y", "t", "enabled", "tru"])
    @pytest.mark.parametrize("prefix", ["", "THREADKEEP_"])
    def test_what_only_looks_like_yes_is_refused(self, prefix: str, value: str, monkeypatch: pytest.MonkeyPatch):
        """It would turn a paid model on. The message names the variable that is set."""
        variable = f"{prefix}ENABLE_FACT_EXTRACTION"
        monkeypatch.setenv(variable, value)

        with pytest.raises(SettingsError, match=f"^{variable} cannot be '{value}'. Only true") as refused:
            Settings.load()
        assert refused.value.details["variable"] == variable

    def test_what_differs_from_the_default_comes_first(self, monkeypatch: pytest.MonkeyPatch):
        """Secrets stay masked."""
        monkeypatch.setenv("THREADKEEP_TOMBSTONE_DAYS", "7")
        monkeypatch.setenv("LANGGRAPH_STORE_REDIS_URL", "redis://:hunter2@host")

        origins = [row.origin == "default" for row in resolved(Settings.load())]
        first = {row.variable: row.value for row in resolved(Settings.load()) if row.origin != "default"}

        assert origins == sorted(origins)
        assert first["THREADKEEP_TOMBSTONE_DAYS"] == "7.0"
        assert "hunter2" not in str(first)


class TestMisconfiguration:
    """One sentence each, with the variable to correct."""

    @pytest.mark.parametrize("prefix", ["", "LANGGRAPH_STORE_"])
    def test_a_model_without_a_provider_is_refused(self, prefix: str, monkeypatch: pytest.MonkeyPatch):
        """It would be ignored."""
        monkeypatch.setenv(f"{prefix}EMBEDDINGS_MODEL", "text-embedding-3-small")

        with pytest.raises(SettingsError, match=f"^{prefix}EMBEDDINGS_MODEL is 'text-embedding-3-small', and no prov"):
            threadkeep.open("memory://")

    def test_the_name_of_a_local_model_needs_no_provider(self):
        assert create_embedder(Settings(EMBEDDINGS_MODEL="minilm-l6-v2-int8")) is not None

    @pytest.mark.parametrize(
        ("provider", "model", "dims", "gives"),
        [
            ("local", "", "1536", "the local model gives 384"),
            ("", "", "768", "the local model gives 384"),
            ("openai", "text-embedding-ada-002", "512", "text-embedding-ada-002 gives 1536"),
            ("openai", "text-embedding-3-small", "3072", "text-embedding-3-small gives 1536"),
        ],
    )
    def test_dimensions_that_the_embedder_does_not_give_are_refused(
        self, provider: str, model: str, dims: str, gives: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", provider)
        monkeypatch.setenv("EMBEDDINGS_MODEL", model)
        monkeypatch.setenv("LANGGRAPH_STORE_EMBEDDINGS_DIMS", dims)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

        with pytest.raises(SettingsError, match=f"^LANGGRAPH_STORE_EMBEDDINGS_DIMS is {dims}, and {gives}") as refused:
            threadkeep.open("memory://")
        assert refused.value.details["variable"] == "LANGGRAPH_STORE_EMBEDDINGS_DIMS"

    @pytest.mark.parametrize("provider", ["OpenAI", "azure-openai"])
    def test_a_provider_is_taken_in_any_case_and_with_hyphens(self, provider: str, monkeypatch: pytest.MonkeyPatch):
        for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
            monkeypatch.setenv(name, "test")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", provider)
        monkeypatch.setenv("EMBEDDINGS_MODEL", "text-embedding-3-small")

        embedder = create_embedder(Settings.load())

        assert embedder is not None
        assert embedder.name == f"{provider.lower().replace('-', '_')}:text-embedding-3-small"

    @pytest.mark.parametrize("model", ["nonsense", "nonsense:", "no-such-provider:m", ":m"])
    @pytest.mark.parametrize(
        "variable", ["FACT_EXTRACTION_MODEL", "THREADKEEP_FACT_EXTRACTION_MODEL", "THREADKEEP_MODEL"]
    )
    def test_a_model_that_is_nonsense_names_its_variable(
        self, variable: str, model: str, monkeypatch: pytest.MonkeyPatch
    ):
        """And no other one."""
        monkeypatch.setenv("ENABLE_FACT_EXTRACTION", "true")
        monkeypatch.setenv(variable, model)

        with pytest.raises(ModelUnavailableError) as refused:
            threadkeep.open("memory://", embedder="none")
        assert re.findall(r"[A-Z_]+_MODEL", str(refused.value)) == [variable]
