"""What was found is ordered once more by another model, in time or not at all."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import threadkeep
from tests.fakes.loopback import LoopbackServer
from threadkeep.errors import RerankerUnavailableError, SettingsError
from threadkeep.models.helper_models import CrossEncoder
from threadkeep.recall.models import Recall
from threadkeep.settings import Settings
from threadkeep.testing.models import ScriptedModel

KNOWN = ("My sister keeps bees in Porto.", "My sister sings in a choir.", "My sister drives a red tram.")
QUESTION = "What does my sister keep, sing or drive?"
LAST = KNOWN[2]


class _Reranking(BaseHTTPRequestHandler):
    served: Cohere

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.served.asked.append((self.path, self.headers["authorization"], body))
        if self.served.hangs:
            self.served.wait_for_release()
        found = [
            {"index": place, "relevance_score": 0.9 if "tram" in text else 0.1}
            for place, text in enumerate(body["documents"])
        ]
        reply = json.dumps({"id": "1", "results": sorted(found, key=lambda one: -one["relevance_score"])}).encode()
        try:
            self.send_response(self.served.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)
        except (BrokenPipeError, ConnectionResetError):  # the client gave up
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        pass


@dataclass(eq=False)
class Cohere(LoopbackServer):
    """A server that speaks the reranking protocol and likes the tram best.

    Attributes:
        status: What it answers.
        hangs: Whether it answers only when the test is over.
        asked: What it was asked: path, key and body.
    """

    handler = _Reranking
    status: int = 200
    hangs: bool = False
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list[tuple[str, str, dict[str, Any]]])


@pytest.fixture
def cohere() -> Iterator[Cohere]:
    with Cohere() as server:
        yield server


async def recalled(model: Any = None, **settings: str) -> tuple[Recall, dict[str, int]]:
    """Recall what is known, and return it with what was counted."""
    made = Settings.load(store_type="memory", recall_timeout_ms="20000", **settings)
    async with threadkeep.open(settings=made, embedder="none", owner="ana", model=model) as tk:
        for text in KNOWN:
            await tk.memories.remember(text)
        return await tk.recall(QUESTION), tk.app.telemetry.counts()


def texts(found: Recall) -> list[str]:
    return [one.memory.text for one in found.memories]


def of_cohere(cohere: Cohere, **more: str) -> dict[str, str]:
    given = {"reranker": "cohere:rerank-v3.5", "cohere_key": "secret-key", "cohere_url": cohere.origin}
    return {**given, "rerank_timeout_ms": "10000", **more}


class TestCohere:
    async def test_its_order_is_the_blocks(self, cohere: Cohere):
        """What it likes best comes first, and nothing is lost."""
        before, _ = await recalled()
        after, counts = await recalled(**of_cohere(cohere))

        assert texts(before)[0] != LAST
        assert texts(after)[0] == LAST
        assert sorted(texts(after)) == sorted(texts(before)) == sorted(KNOWN)
        assert counts["recall.reranked"] == 1
        path, key, body = cohere.asked[0]
        assert (path, key) == ("/v2/rerank", "Bearer secret-key")
        assert (body["model"], body["query"], sorted(body["documents"])) == ("rerank-v3.5", QUESTION, sorted(KNOWN))

    async def test_one_that_hangs_costs_its_time_and_nothing_else(self, cohere: Cohere):
        """The block is in the order of before, and says so; the turn's own time is not used up."""
        cohere.hangs = True
        before, _ = await recalled()

        after, counts = await recalled(**of_cohere(cohere, rerank_timeout_ms="50"))

        assert texts(after) == texts(before)
        assert after.degraded == ("reranker",)
        assert counts["reranker.degraded"] == 1
        assert "recall.reranked" not in counts

    @pytest.mark.slow
    async def test_its_time_ends_before_the_turns(self, cohere: Cohere):
        """However long it may take, the block is made in time."""
        cohere.hangs = True
        told = of_cohere(cohere, rerank_timeout_ms="60000")

        made = Settings.load(store_type="memory", recall_timeout_ms="1000", **told)
        async with threadkeep.open(settings=made, embedder="none", owner="ana") as tk:
            for text in KNOWN:
                await tk.memories.remember(text)
            found = await tk.recall(QUESTION)

        assert sorted(texts(found)) == sorted(KNOWN)
        assert len(cohere.asked) == 1
        assert found.degraded == ("reranker",)

    async def test_refusal_is_reported_without_the_key(self, cohere: Cohere, caplog: pytest.LogCaptureFixture):
        """The log names what to check."""
        cohere.status = 401

        found, _ = await recalled(**of_cohere(cohere))

        assert found.degraded == ("reranker",)
        assert len(found.memories) == len(KNOWN)
        assert "secret-key" not in caplog.text

    async def test_unrelated_question_calls_no_reranker(self, cohere: Cohere):
        """Where nothing matters there is nothing to order."""
        made = Settings.load(store_type="memory", **of_cohere(cohere))
        async with threadkeep.open(settings=made, embedder="none", owner="ana") as tk:
            await tk.memories.remember(KNOWN[0])
            found = await tk.recall("Quantum chromodynamics?")

        assert (found.text, cohere.asked) == ("", [])


class TestChatModel:
    async def test_the_notes_that_it_names_come_first(self):
        """It is shown numbered notes as data, and the others stay in their order."""
        before, _ = await recalled()
        model = ScriptedModel(replies=["The best ones: [3, 2, 99]"])

        after, _ = await recalled(model, reranker="model", rerank_timeout_ms="10000")

        assert texts(after) == [texts(before)[2], texts(before)[1], texts(before)[0]]
        assert json.loads(str(model.prompts[0][-1].content))["notes"]["1"] == texts(before)[0]

    async def test_a_reply_without_a_list_changes_nothing(self):
        """A model that chats is a reranker that is down."""
        before, _ = await recalled()

        after, _ = await recalled(
            ScriptedModel(replies=["Happy to help!"]), reranker="model", rerank_timeout_ms="10000"
        )

        assert texts(after) == texts(before)
        assert after.degraded == ("reranker",)


@dataclass
class Liking:
    """A reranker that likes what holds a word, and says what it was shown."""

    word: str
    name: str = "liking"
    remote: bool = False
    shown: list[Sequence[str]] = field(default_factory=list[Sequence[str]])

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        self.shown.append(texts)
        return [float(self.word in text) for text in texts]


class TestTheBlock:
    """The reranker's order is the one in which memories are offered to the budget."""

    TOLD = (
        "I joined Acme as a nurse.",
        "My work bench stands in the cellar.",
        "I work out at the gym on Mondays.",
        "At work we drink green tea.",
    )
    QUESTION = "Where do I work?"

    async def block(self, reranker: Any, **budget: int) -> list[str]:
        made = Settings.load(store_type="memory", recall_timeout_ms="20000", rerank_timeout_ms="10000")
        async with threadkeep.open(settings=made, embedder="none", owner="ana", reranker=reranker) as tk:
            for text in self.TOLD:
                await tk.memories.remember(text)
            return texts(await tk.recall(self.QUESTION, **budget))

    async def test_what_answers_by_its_slot_is_ordered_with_the_rest(self):
        """A fact that shares no word with the question stands first without a reranker, and is shown to one, once."""
        likes_tea, likes_acme = Liking("tea"), Liking("Acme")

        assert (await self.block(None))[0] == self.TOLD[0]
        assert (await self.block(likes_tea))[0] == self.TOLD[3]
        assert (await self.block(likes_acme))[0] == self.TOLD[0]
        (shown,) = likes_tea.shown
        assert sorted(shown) == sorted(set(shown))
        assert self.TOLD[0] in shown

    async def test_budget_is_filled_in_the_order_of_the_reranker(self):
        """Of one fact, it is the liked one; of all, none is lost and none is there twice."""
        for place in (0, 3):
            word = self.TOLD[place].split()[-1]
            assert await self.block(Liking(word), max_facts=1) == [self.TOLD[place]]
        everything = await self.block(Liking("tea"))
        assert sorted(everything) == sorted(set(everything)) == sorted(await self.block(None))


FASTEMBED = """
import numpy, onnxruntime, zlib
class TextCrossEncoder:
    def __init__(self, model_name):
        self.session = onnxruntime.InferenceSession(model_name, providers=["CPUExecutionProvider"])
    def rerank(self, query, documents):
        return iter(score(self.session, query, documents))
def counts(text):
    row = numpy.zeros(512, numpy.float32)
    for word in text.lower().replace("?", "").replace(".", "").replace(",", "").split():
        row[zlib.crc32(word.encode()) % 512] = 1
    return row
def score(session, query, documents):
    rows = numpy.stack([counts(text) for text in documents])
    return session.run(None, {"question": counts(query), "texts": rows})[0]
"""
SENTENCE_TRANSFORMERS = """
import onnxruntime
from fastembed.rerank.cross_encoder import score
class CrossEncoder:
    def __init__(self, model):
        self.session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    def predict(self, pairs):
        return score(self.session, pairs[0][0], [text for _, text in pairs])
"""


@pytest.fixture
def cross_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A model in ONNX that counts common words and likes trams, behind the calls of two libraries that are not here."""
    onnx, helper = pytest.importorskip("onnx"), pytest.importorskip("onnx.helper")
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["question", "liked"], ["wanted"]),
            helper.make_node("MatMul", ["texts", "wanted"], ["scores"]),
        ],
        "overlap",
        [
            helper.make_tensor_value_info("question", kind, [512]),
            helper.make_tensor_value_info("texts", kind, ["n", 512]),
        ],
        [helper.make_tensor_value_info("scores", kind, ["n"])],
        [helper.make_tensor("liked", kind, [512], [float(place == crc32(b"tram") % 512) for place in range(512)])],
    )
    path = tmp_path / "overlap.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    packages = tmp_path / "packages"
    for name, text in {
        "fastembed/__init__.py": "",
        "fastembed/rerank/__init__.py": "",
        "fastembed/rerank/cross_encoder.py": FASTEMBED,
        "sentence_transformers/__init__.py": SENTENCE_TRANSFORMERS,
    }.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(packages)
    yield str(path)
    for name in set(sys.modules) - before:
        if name.startswith(("fastembed", "sentence_transformers")):
            del sys.modules[name]


class TestCrossEncoder:
    @pytest.mark.parametrize("library", ["fastembed", "sentence-transformers"])
    async def test_its_order_is_the_blocks(self, cross_encoder: str, library: str):
        """The model is run on the question with each memory; what it does not tell apart stays as it was."""
        before, _ = await recalled()

        after, counts = await recalled(reranker=f"{library}:{cross_encoder}", rerank_timeout_ms="10000")

        assert texts(before)[0] != LAST
        assert texts(after) == [LAST, *(text for text in texts(before) if text != LAST)]
        assert counts["recall.reranked"] == 1

    async def test_a_model_that_cannot_be_loaded_changes_nothing(self, cross_encoder: str):
        """The order is that of before, and says so."""
        before, _ = await recalled()

        after, _ = await recalled(reranker="fastembed:/no/such/model.onnx", rerank_timeout_ms="10000")

        assert (texts(after), after.degraded) == (texts(before), ("reranker",))

    async def test_one_that_is_busy_takes_no_second_question(self, cross_encoder: str):
        """A thread cannot be stopped: who gave up is not followed by others who pile up."""
        encoder = CrossEncoder(cross_encoder, library="fastembed")
        entered, go = threading.Event(), threading.Event()

        def slow(question: str, given: Sequence[str]) -> Sequence[float]:
            entered.set()
            go.wait()
            return [0.0] * len(given)

        encoder._score = slow
        first = asyncio.ensure_future(encoder.scores(QUESTION, KNOWN))
        await asyncio.to_thread(entered.wait)
        first.cancel()

        with pytest.raises(RerankerUnavailableError, match="busy"):
            await encoder.scores(QUESTION, KNOWN)

        running = encoder._running
        go.set()
        assert running is not None
        await running
        assert list(await encoder.scores(QUESTION, KNOWN)) == [0.0] * len(KNOWN)


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("cohere:rerank-v3.5", "COHERE_API_KEY"),
            ("bge", "fastembed:MODEL"),
            ("fastembed:", "fastembed:MODEL"),
            ("sentence-transformers:cross-encoder/ms-marco-MiniLM-L6-v2", "pip install sentence-transformers"),
        ],
    )
    def test_what_is_missing_is_named(self, name: str, told: str, tmp_path: Path):
        """When the memory is opened, and not in the middle of a turn."""
        with pytest.raises(SettingsError, match=told):
            threadkeep.open(settings=Settings.load(store_type="memory", reranker=name))

    async def test_off_by_default(self):
        """Nothing is compared once more unless somebody asks for it."""
        found, counts = await recalled()

        assert found.degraded == ()
        assert "recall.reranked" not in counts
