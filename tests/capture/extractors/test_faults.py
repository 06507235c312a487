"""Everything that a model does wrong, to both extractors, over HTTP: nothing is erased, and it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from langchain_openai import ChatOpenAI

import threadkeep
from tests.fakes.model_server import Hang, ModelServer, Raw, Reply, ToolCalls
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder

OWNER: Final = "ana@x.org"
SAID: Final = "We deploy with ArgoCD on prod-west."
EXTRACTORS: Final = ("structured", "langmem")
LONG: Final = "word " * 40_000
"""Three times what an answer may have."""
GOOD: Final[dict[str, Reply]] = {
    "structured": '{"facts": [{"text": "We deploy with ArgoCD on prod-west.", "kind": "semantic", "replaces": null}], '
    '"episode": "Said: We deploy with ArgoCD on prod-west."}',
    "langmem": ToolCalls([("SemanticMemory", {"content": SAID})]),
}
WRONG: Final[dict[str, dict[str, Reply]]] = {
    "hangs": dict.fromkeys(EXTRACTORS, Hang()),
    "garbage": dict.fromkeys(EXTRACTORS, Raw(b"\x00\xff<html>no JSON at all</html>")),
    "empty": dict.fromkeys(EXTRACTORS, ""),
    "too long": dict.fromkeys(EXTRACTORS, LONG),
    "too long in the schema": {
        "structured": '{"facts": [], "episode": "' + LONG + '"}',
        "langmem": ToolCalls([("SemanticMemory", {"content": LONG})]),
    },
    "wrong schema": {
        "structured": '{"facts": [{"text": 7, "kind": "semantic"}], "episode": "", "owner": "bob"}',
        "langmem": ToolCalls([("SemanticMemory", {"content": {"owner": "bob"}})]),
    },
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize("fault", WRONG)
class TestFault:
    async def test_nothing_is_erased_and_it_shows(self, server: ModelServer, extractor: str, fault: str):
        """In the receipt and the counters; and the turn is learnt from when the model has come to its senses."""
        server.replies = [WRONG[fault][extractor]]
        settings = Settings.load(
            store_type="memory",
            enable_fact_extraction="true",
            extractor=extractor,
            extraction_timeout_seconds="1" if fault == "hangs" else "30",
            capture_tries="1",
        )
        model: Any = ChatOpenAI(model="helper", base_url=server.base_url, api_key="none", max_retries=0)  # pyright: ignore[reportArgumentType]
        async with threadkeep.open(
            settings=settings, owner=OWNER, model=model, embedder=HashingEmbedder(), clock=FrozenClock()
        ) as tk:
            kept = await tk.memories.remember("I live in Lisbon.")
            receipt = await tk.capture([("user", SAID)], thread_id="t1")
            await tk.drain()

            failed = await tk.settle(receipt.turn_ids)

            assert [memory.memory_id for memory in await tk.memories.list()] == [kept.memory_id]
            assert await tk.proposals.list() == []
            assert failed.status == "failed"
            assert "extraction model" in (failed.reason or "")
            counts = tk.app.telemetry.counts()
            assert (counts["extraction.failed"], counts["capture.parked"]) == (1, 1)
            assert (await tk.owners.show()).extraction["failed"] == 1

            server.replies = [GOOD[extractor]]
            assert len(await tk.queue.retry()) == 1
            await tk.drain()
            assert SAID in [memory.text for memory in await tk.memories.list()]
