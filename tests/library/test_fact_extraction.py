"""Fact extraction under the documents' names: over our store, and over a stock one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

import threadkeep
from tests.capture.extractors.test_langmem import inserting
from threadkeep import functions
from threadkeep.errors import InvalidInputError, OwnerMismatchError, SettingsError
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana.maria@x.org"
SAID = [("user", "We deploy with ArgoCD on prod-west."), ("assistant", "You bank with Evil Bank.")]
FACT = "User's team deploys with ArgoCD on prod-west."


@pytest.fixture(params=["ours", "stock"])
def store(request: pytest.FixtureRequest) -> Iterator[BaseStore]:
    if request.param == "stock":
        yield InMemoryStore()
        return
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
        yield tk.store


def enabled(**more: Any) -> Settings:
    return Settings.load(enable_fact_extraction="true", **more)


async def texts(store: BaseStore, user_id: str = ANA) -> list[str]:
    found = await store.asearch(("memories", functions.sanitize_namespace_label(user_id)), limit=100)
    facts = [item.value for item in found if item.value.get("type") != "episodic"]
    return [value["data"] for value in facts if value.get("kind") in ("semantic", "Memory")]  # the latter: as shown


class TestExtract:
    async def test_what_is_extracted_on_one_thread_is_known_on_the_next(self, store: BaseStore):
        """With its thread; and what only the reply says is not."""
        model = ScriptedModel(replies=[inserting(FACT, "User banks with Evil Bank.")])

        receipt = await functions.extract_and_store_facts(
            store, SAID, ANA, thread_id="t1", model=model, settings=enabled()
        )

        assert receipt is not None
        assert receipt.status == "done"
        assert await texts(store) == [FACT]
        assert FACT in await functions.store_get_cross_thread_context(store, ANA)
        (item,) = [
            i for i in await store.asearch(("memories", "~tk~ana+00002emaria@x+00002eorg")) if "ArgoCD" in str(i)
        ][:1]
        assert item.value["source_thread"] == "t1"
        assert receipt.usage[0].prompt == "langmem-1"

    async def test_nothing_is_done_where_it_is_off(self, store: BaseStore):
        """That is the default."""
        model = ScriptedModel()

        assert not functions.is_fact_extraction_enabled()
        assert await functions.extract_and_store_facts(store, SAID, ANA, model=model) is None
        assert model.prompts == []

    async def test_failure_never_reaches_the_caller(self, store: BaseStore):
        """It is logged and counted; over our store the turn is tried again later."""
        model = ScriptedModel(replies=[RuntimeError("down")])

        receipt = await functions.extract_and_store_facts(store, SAID, ANA, model=model, settings=enabled())

        assert await texts(store) == []
        if isinstance(store, InMemoryStore):
            assert receipt is None
        else:
            assert receipt is not None
            assert receipt.status == "queued"
            assert (
                receipt.reason == "The extraction model failed (RuntimeError); check its key, its limits and its log."
            )

    async def test_locked_store_refuses_another_user(self):
        """Which is a failure like any other."""
        with threadkeep.open("memory://", embedder="none") as tk:
            extractor = functions.create_fact_extractor(tk.for_owner("bob").store, model=ScriptedModel())
            with pytest.raises(OwnerMismatchError):
                await extractor.extract(SAID, user_id=ANA)


class TestCreate:
    async def test_it_is_called_as_a_manager_is(self, store: BaseStore):
        """With messages, and a config that says whose they are."""
        extractor = functions.create_fact_extractor(store, model=ScriptedModel(replies=[inserting(FACT)]))
        config = {"configurable": {"user_id": ANA, "thread_id": "t1"}}

        await extractor.ainvoke({"messages": SAID}, config)

        assert await texts(store) == [FACT]
        with pytest.raises(InvalidInputError):
            await extractor.ainvoke({"messages": SAID}, {})

    def test_model_is_set_up_once(self, store: BaseStore):
        """However many ask for it; another model has another."""
        model = ScriptedModel()
        first, second = (functions.create_fact_extractor(store, model=model) for _ in range(2))

        assert first.extractor is second.extractor
        assert functions.create_fact_extractor(store, model=ScriptedModel()).extractor is not first.extractor

    @pytest.mark.parametrize(
        ("set_to", "name"), [(None, "langmem"), ("structured", "structured"), ("langmem", "langmem")]
    )
    def test_langmem_is_the_default_here(self, store: BaseStore, set_to: str | None, name: str):
        """As in the documents."""
        settings = Settings.load(extractor=set_to)

        assert functions.create_fact_extractor(store, model=ScriptedModel(), settings=settings).extractor.name == name

    def test_without_a_model_there_is_none(self, store: BaseStore):
        """The sentence names the variable."""
        with pytest.raises(SettingsError, match="FACT_EXTRACTION_MODEL"):
            functions.create_fact_extractor(store)
