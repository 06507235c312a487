"""Embedders and cross-encoders in ONNX, with models of a few kilobytes that are made here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import threadkeep
from threadkeep.errors import EmbedderUnavailableError, SettingsError
from threadkeep.ids import ThreadId
from threadkeep.memories.models import NewMemory, Source
from threadkeep.models.helper_models import CrossEncoder
from threadkeep.models.local import CROSS_ENCODERS, EMBEDDERS, OnnxEmbedder, open_cross_encoder
from threadkeep.registry import create_embedder
from threadkeep.settings import Settings
from threadkeep.testing.clock import START

onnx = pytest.importorskip("onnx")
tokenizers = pytest.importorskip("tokenizers")

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
TEXTS = """
i my sister keeps bees sings in a choir drives red tram what does keep sing drive or the passport is drawer blue where
query : passage
"""
WORDS = [*MARKS, *TEXTS.split()]
ANA = "ana@x.org"


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of whole words, with BERT's marks around a text and between two."""
    ids = {word: number for number, word in enumerate(WORDS)}
    words: Any = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    words.save(str(folder / "tokenizer.json"))


def write_graph(
    path: Path, nodes: Sequence[Any], constants: dict[str, Any], inputs: Sequence[str], output: str
) -> None:
    """Write a graph of *nodes*; every input is int64 with a row for each text."""
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))


def embedder_folder(
    folder: Path, *, seed: int = 0, dims: int = 16, pooling: str = "", name: str = "model.onnx"
) -> Path:
    """Write an embedder with a random direction for each word; the vectors of tokens are its output."""
    table = np.random.default_rng(seed).standard_normal((len(WORDS), dims)).astype(np.float32)
    table[:4] = 0.01  # marks say nothing
    node = onnx.helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    folder.mkdir(exist_ok=True)
    write_graph(folder / name, [node], {"table": table}, ["input_ids"], "last_hidden_state")
    write_tokenizer(folder)
    if pooling:
        (folder / "1_Pooling").mkdir()
        told = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    return folder


def cross_encoder_folder(folder: Path, *, columns: int = 1) -> Path:
    """Write a cross-encoder with int8 weights that counts the words that question and text share."""
    helper = onnx.helper
    eye = np.eye(len(WORDS), dtype=np.int8)
    eye[:4] = 0
    out = np.array([[1.0]] if columns == 1 else [[-0.5, 0.5]], dtype=np.float32)
    constants = {
        "eye": eye,
        "scale": np.float32(1.0),
        "one": np.array(1, np.int64),
        "axis": np.array([1], np.int64),
        "last": np.array([2], np.int64),
        "words": np.array([1], np.int64),
        "out": out,
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["eye", "scale"], ["table"]),
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("Mul", ["token_type_ids", "attention_mask"], ["is_text"]),
        helper.make_node("Sub", ["attention_mask", "is_text"], ["is_question"]),
    ]
    for side in ("question", "text"):
        nodes += [
            helper.make_node("Cast", [f"is_{side}"], [f"{side}_weights"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Unsqueeze", [f"{side}_weights", "last"], [f"{side}_mask"]),
            helper.make_node("Mul", ["tokens", f"{side}_mask"], [f"{side}_tokens"]),
            helper.make_node("ReduceMax", [f"{side}_tokens"], [f"{side}_words"], axes=[1], keepdims=0),
        ]
    nodes += [
        helper.make_node("Mul", ["question_words", "text_words"], ["both"]),
        helper.make_node("ReduceSum", ["both", "words"], ["shared"], keepdims=1),
        helper.make_node("MatMul", ["shared", "out"], ["logits"]),
    ]
    folder.mkdir(exist_ok=True)
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    write_graph(folder / "onnx" / "model_quantized.onnx", nodes, constants, inputs, "logits")
    write_tokenizer(folder)
    return folder


class TestEmbedder:
    async def test_rows_are_unit_vectors_of_each_text_alone(self, tmp_path: Path) -> None:
        """Padding changes nothing, and the length of a vector is known once the model is loaded."""
        embedder = OnnxEmbedder(str(embedder_folder(tmp_path / "small")))
        texts = ["My sister keeps bees.", "", "the blue drawer is where my passport is"]

        vectors = await embedder.embed(texts)
        alone = np.concatenate([await embedder.embed([text]) for text in texts])

        assert (vectors.shape, vectors.dtype, embedder.dims) == ((3, 16), np.float32, 16)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        assert np.allclose(vectors, alone, atol=1e-6)
        assert embedder.remote is False

    async def test_pooling_is_the_models(self, tmp_path: Path) -> None:
        """With the first token's vector, all texts of this model are alike."""
        mean = OnnxEmbedder(str(embedder_folder(tmp_path / "mean", pooling="mean")))
        first = OnnxEmbedder(str(embedder_folder(tmp_path / "first", pooling="cls")))
        texts = ["My sister keeps bees.", "The passport is in the drawer."]

        alike = await first.embed(texts)
        different = await mean.embed(texts)

        assert float(alike[0] @ alike[1]) == pytest.approx(1, abs=1e-5)
        assert float(different[0] @ different[1]) < 0.9

    async def test_questions_have_their_own_prefix(self, tmp_path: Path) -> None:
        """As the folder says it; ``embed_now`` embeds questions, too."""
        folder = embedder_folder(tmp_path / "prefixed")
        told = {"prompts": {"query": "query: ", "document": "passage: "}}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(told))
        plain = OnnxEmbedder(str(embedder_folder(tmp_path / "plain")))
        embedder = OnnxEmbedder(str(folder))

        (question,) = await embedder.embed_queries(["my sister"])
        (passage,) = await embedder.embed(["my sister"])
        now = embedder.embed_now(["my sister"])

        assert np.allclose(question, (await plain.embed(["query: my sister"]))[0], atol=1e-6)
        assert np.allclose(passage, (await plain.embed(["passage: my sister"]))[0], atol=1e-6)
        assert now is not None
        assert np.allclose(now[0], question, atol=1e-6)

    def test_the_name_is_of_the_weights(self, tmp_path: Path) -> None:
        """Vectors of two models in folders of the same name are never compared."""
        one = OnnxEmbedder(str(embedder_folder(tmp_path / "a", seed=1)))
        (tmp_path / "other").mkdir()
        other = OnnxEmbedder(str(embedder_folder(tmp_path / "other" / "a", seed=2)))
        again = OnnxEmbedder(str(embedder_folder(tmp_path / "a", seed=1)))

        assert one.name == again.name != other.name
        assert one.name.startswith("onnx:a@")

    def test_a_folder_without_a_model_is_refused(self, tmp_path: Path) -> None:
        """The message names what is missing and the models that are known."""
        with pytest.raises(SettingsError, match=r"model\.onnx and tokenizer\.json is missing.*bge-small"):
            OnnxEmbedder(str(tmp_path))

    async def test_a_broken_model_is_unavailable(self, tmp_path: Path) -> None:
        folder = embedder_folder(tmp_path / "broken")
        (folder / "model.onnx").write_bytes(b"no model")

        with pytest.raises(EmbedderUnavailableError, match="could not be loaded"):
            await OnnxEmbedder(str(folder)).ready()

    async def test_a_known_name_is_downloaded_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Through ``huggingface_hub``, and an error of it says what to do."""
        folder = embedder_folder(tmp_path / "hub", name="onnx_file.onnx")
        (folder / "onnx").mkdir()
        (folder / "onnx_file.onnx").rename(folder / "onnx" / "model_quantized.onnx")
        asked: list[str] = []

        def snapshot_download(repository: str, **_options: object) -> str:
            asked.append(repository)
            if len(asked) == 1:
                msg = "no route"
                raise OSError(msg)
            return str(folder)

        monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
        embedder = OnnxEmbedder("gte-small")

        with pytest.raises(EmbedderUnavailableError, match="name its folder"):
            await embedder.ready()
        await embedder.embed(["my sister"])
        await embedder.embed(["my choir"])

        assert asked == ["Xenova/gte-small"] * 2

    @pytest.mark.parametrize("name", [*EMBEDDERS, *CROSS_ENCODERS])
    def test_known_names_have_a_repository(self, name: str) -> None:
        """And cost nothing before their first text."""
        model = EMBEDDERS.get(name) or CROSS_ENCODERS[name]

        assert model.repository.count("/") == 1

    def test_settings_choose_it(self, tmp_path: Path) -> None:
        folder = str(embedder_folder(tmp_path / "small"))

        chosen = create_embedder(Settings.load(embeddings_provider="onnx", embeddings_model=folder))

        assert isinstance(chosen, OnnxEmbedder)
        with pytest.raises(SettingsError, match="multilingual-e5-small, or a folder"):
            create_embedder(Settings.load(embeddings_provider="onnx"))


class TestMemory:
    async def test_vectors_of_two_embedders_never_mix(self, tmp_path: Path) -> None:
        """After a change of the model, what was kept is found by its words until it is embedded anew."""
        url = f"sqlite:///{tmp_path}/memory.db"
        first = OnnxEmbedder(str(embedder_folder(tmp_path / "first", seed=1)))
        second = OnnxEmbedder(str(embedder_folder(tmp_path / "second", seed=2)))
        async with threadkeep.open(url, owner=ANA, embedder=first) as tk:
            said = [{"role": "user", "content": "My passport is in the blue drawer."}]
            await tk.capture(said, thread_id="t", wait=True)
            (with_first,) = (await tk.memories.search("where is my passport"))[:1]
        async with threadkeep.open(url, owner=ANA, embedder=second) as tk:
            await tk.memories.remember("My sister keeps bees.")
            found = await tk.memories.search("where is my passport")
            own = await tk.memories.search("what does my sister keep")

        assert "blue drawer" in with_first.memory.text
        assert "blue drawer" in found[0].memory.text
        assert own[0].memory.text == "My sister keeps bees."

    async def test_questions_are_embedded_as_questions(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And what is kept as passages."""
        embedder = OnnxEmbedder(str(embedder_folder(tmp_path / "small")))
        monkeypatch.setattr(embedder, "embed_now", lambda _texts: None)
        asked: list[str] = []
        embed_queries = embedder.embed_queries

        async def recorded(texts: Sequence[str]) -> Any:
            asked.extend(texts)
            return await embed_queries(texts)

        monkeypatch.setattr(embedder, "embed_queries", recorded)
        async with threadkeep.open("memory://", owner=ANA, embedder=embedder) as tk:
            await tk.memories.remember("My passport is in the blue drawer.")
            await tk.memories.search("where is my passport")

        assert set(asked) == {"where is my passport"}


class TestCrossEncoder:
    @pytest.mark.parametrize("columns", [1, 2])
    def test_pairs_are_scored_together(self, tmp_path: Path, columns: int) -> None:
        """In the order given, whatever their length; two columns are no and yes."""
        score = open_cross_encoder(str(cross_encoder_folder(tmp_path / "cross", columns=columns)))

        scores = score("What does my sister drive?", ["My sister drives a tram", "", "the sister does drive", "my"] * 6)

        assert scores == [2, 0, 3, 1] * 6

    async def test_the_first_fifty_are_ordered_by_it(self, tmp_path: Path) -> None:
        """Through the setting, in a memory of 60 that share a word with the question."""
        folder = cross_encoder_folder(tmp_path / "cross")
        settings = Settings.load(reranker=f"onnx:{folder}", rerank_timeout_ms="5000", recall_timeout_ms="10000")
        seen: list[int] = []
        scores = CrossEncoder.scores

        async def counted(self: CrossEncoder, question: str, texts: Sequence[str]) -> Sequence[float]:
            seen.append(len(texts))
            return await scores(self, question, texts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CrossEncoder, "scores", counted)
            embedder = OnnxEmbedder(str(embedder_folder(tmp_path / "small")))
            async with threadkeep.open("memory://", owner=ANA, embedder=embedder, settings=settings) as tk:
                for number in range(60):
                    await tk.memories.remember(f"My sister keeps bees number {number} of {number * 7}.")
                await tk.memories.remember("My sister does sing or drive a red tram.")
                recall = await tk.recall("What does my sister keep, sing or drive?")

        assert seen == [50]
        assert recall.degraded == ()
        assert recall.memories[0].text == "My sister does sing or drive a red tram."

    async def test_an_episode_is_compared_with_what_stands_beside_it(self, tmp_path: Path) -> None:
        """Of its own session, and with nothing of another one."""
        folder = cross_encoder_folder(tmp_path / "cross")
        settings = Settings.load(reranker=f"onnx:{folder}", rerank_timeout_ms="5000", recall_timeout_ms="10000")
        said = [
            ("a", "What does the sister drive?"),
            ("a", "The red tram."),
            ("a", "I see."),
            ("b", "My sister sings."),
        ]
        news = [
            NewMemory(text, "episodic", (Source("user", ThreadId(thread), at=START + timedelta(minutes=place)),))
            for place, (thread, text) in enumerate(said)
        ]
        seen: list[str] = []
        scores = CrossEncoder.scores

        async def recorded(self: CrossEncoder, question: str, texts: Sequence[str]) -> Sequence[float]:
            seen.extend(texts)
            return await scores(self, question, texts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CrossEncoder, "scores", recorded)
            embedder = OnnxEmbedder(str(embedder_folder(tmp_path / "small")))
            async with threadkeep.open("memory://", owner=ANA, embedder=embedder, settings=settings) as tk:
                await tk.memories.remember_many(news)
                await tk.recall("What red tram does my sister drive?")

        assert "What does the sister drive?\nThe red tram.\nI see." in seen
        assert "My sister sings." in seen

    def test_a_name_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="ms-marco-minilm-l6-v2"):
            threadkeep.open("memory://", settings=Settings.load(reranker=f"onnx:{tmp_path}/none"))
