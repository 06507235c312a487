"""MiniLM on this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from threadkeep.errors import EmbedderUnavailableError, SettingsError
from threadkeep.models import local
from threadkeep.models.local import LocalEmbedder
from threadkeep.registry import create_embedder
from threadkeep.settings import Settings

NASTY = [
    "",
    " \n\t",
    "\x00",
    "half a \ud800 character",
    "[PAD] [SEP] [CLS]",
    "\U0001f600" * 3_000,
    "字" * 20_000,
    "אבג دهو ไทย हिन्दी ქართული",
    "x" * 1_000_000,
    " " * 1_000_000 + "allergic to peanuts",
]
DEEDS = [
    "keeps bees.",
    "moved to Ghent in March 2021",
    "is allergic to peanuts!",
    "asked when the review is",
    "ordena té",
    "no",
]


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.mark.model
class TestEmbed:
    async def test_rows_are_unit_vectors(self, embedder: LocalEmbedder):
        """One for each text, in float32."""
        vectors = await embedder.embed(["I like tea.", "We moved to Ghent."])

        assert (vectors.shape, vectors.dtype) == ((2, embedder.dims), np.float32)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    async def test_no_texts_give_no_rows(self, embedder: LocalEmbedder):
        """Without loading anything."""
        assert (await embedder.embed([])).shape == (0, 384)

    async def test_the_model_cards_pairs_are_as_near_as_in_fp32(self, embedder: LocalEmbedder):
        """The published model with the adapter has 0.667, 0.947 and 0.246; int8 costs less than 0.02."""
        texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]

        vectors = await embedder.embed(texts)

        assert vectors[1:] @ vectors[0] == pytest.approx([0.667, 0.947, 0.246], abs=0.02)

    @pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
    async def test_any_text_has_a_vector(self, embedder: LocalEmbedder, text: str):
        """Nothing that a user can send makes it fail."""
        vectors = await embedder.embed([text])

        assert np.linalg.norm(vectors[0]) == pytest.approx(1, abs=1e-5)

    async def test_blanks_in_front_hide_nothing(self, embedder: LocalEmbedder):
        """The cut at the model's limit counts from the first character that says something."""
        vectors = await embedder.embed([" " * 100_000 + "I like tea.", "I like tea."])

        assert vectors[0] @ vectors[1] == pytest.approx(1, abs=1e-5)

    async def test_a_vector_does_not_depend_on_its_batch(self, embedder: LocalEmbedder):
        """So the same statement is the same everywhere, whoever else was embedding."""
        texts = ["I like tea.", "We moved from Lisbon to Ghent in March 2021. " * 10, "no", "kubectl get pods"]

        together = await embedder.embed([*texts, "and a fifth", "and a sixth"])
        alone = [(await LocalEmbedder().embed([text]))[0] for text in texts]

        assert np.allclose(together[: len(texts)], alone, atol=1e-4)

    async def test_questions_that_come_together_get_their_own_answers(self, embedder: LocalEmbedder):
        """Forty callers at once, merged into a few batches."""
        questions = [f"What did I say about topic number {number}?" for number in range(40)]

        apart = await asyncio.gather(*(embedder.embed([question]) for question in questions))

        assert np.allclose(np.concatenate(apart), await embedder.embed(questions), atol=1e-4)

    def test_one_embedder_serves_any_loop(self, embedder: LocalEmbedder):
        """It belongs to none."""
        first = asyncio.run(embedder.embed(["first loop"]))
        second = asyncio.run(embedder.embed(["second loop"]))

        assert first.shape == second.shape == (1, 384)


@pytest.mark.model
class TestPrecision:
    @pytest.mark.slow
    async def test_int8_is_as_good_as_fp32(self):
        """Vectors of the same text are the same to a hundredth, on average, and are not taken for each other."""
        small, large = LocalEmbedder(), LocalEmbedder(precision="fp32")
        texts = [f"{who} {what}" for who in ("My sister", "Ana", "The team in Porto") for what in DEEDS]

        pairs = await small.embed(texts), await large.embed(texts)

        cosines = np.sum(pairs[0] * pairs[1], axis=1)
        assert cosines.mean() >= 0.99
        assert not np.array_equal(*pairs)
        assert (small.name, large.name) == ("minilm-l6-v2-int8@3", "minilm-l6-v2-fp32@2")

    @pytest.mark.slow
    async def test_fp32_is_the_published_model_with_the_adapter(self):
        """To three decimals; without the adapter they are 0.695, 0.943 and 0.257."""
        texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]

        vectors = await LocalEmbedder(precision="fp32").embed(texts)

        assert vectors[1:] @ vectors[0] == pytest.approx([0.667, 0.947, 0.246], abs=0.001)

    @pytest.mark.parametrize(
        ("model", "name"),
        [
            ("", "minilm-l6-v2-int8@3"),
            ("minilm-l6-v2-int8", "minilm-l6-v2-int8@3"),
            ("minilm-l6-v2-fp32", "minilm-l6-v2-fp32@2"),
        ],
    )
    def test_a_setting_chooses_it(self, model: str, name: str):
        """By the model's name; int8 where none is given."""
        chosen = create_embedder(Settings(EMBEDDINGS_PROVIDER="local", EMBEDDINGS_MODEL=model))

        assert chosen is not None
        assert chosen.name == name

    def test_another_name_is_refused(self):
        """With those that there are."""
        with pytest.raises(SettingsError, match="minilm-l6-v2-int8, minilm-l6-v2-fp32"):
            create_embedder(Settings(EMBEDDINGS_PROVIDER="local", EMBEDDINGS_MODEL="text-embedding-3-small"))

    async def test_missing_model_file_is_reported(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        """With where it comes from: the distribution does not have it."""
        monkeypatch.setattr("threadkeep_minilm.FP32_PATH", tmp_path / "fp32.onnx")

        with pytest.raises(EmbedderUnavailableError, match=r"fp32\.onnx missing\); it is built by `make setup`"):
            await LocalEmbedder(precision="fp32").ready()


@pytest.mark.model
class TestReady:
    async def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch):
        """With the line that installs it."""
        monkeypatch.setitem(sys.modules, "onnxruntime", None)

        assert not local.available()
        with pytest.raises(EmbedderUnavailableError, match=r'onnxruntime missing.*pip install "threadkeep\[local\]"'):
            await LocalEmbedder().ready()

    async def test_a_model_that_was_not_built_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        """The package is there, its file is not."""
        monkeypatch.setattr("threadkeep_minilm.MODEL_PATH", tmp_path / "model.onnx")

        assert not local.available()
        with pytest.raises(EmbedderUnavailableError, match=r"model\.onnx missing"):
            await LocalEmbedder().ready()

    async def test_a_broken_model_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ):
        """And the engine below says nothing beside it."""
        broken = tmp_path / "model.onnx"
        broken.write_bytes(b"no model")
        monkeypatch.setattr("threadkeep_minilm.MODEL_PATH", broken)

        with pytest.raises(EmbedderUnavailableError, match="could not be loaded"):
            await LocalEmbedder().ready()
        assert capfd.readouterr() == ("", "")


@pytest.mark.model
class TestImport:
    def test_knowing_that_it_is_there_imports_nothing_heavy(self):
        """The command line asks at every start."""
        heavy = imported_by(
            "from threadkeep.models.local import LocalEmbedder, available; available(); LocalEmbedder()"
        )

        assert not heavy & {"numpy", "onnxruntime", "tokenizers", "langchain_core"}

    @pytest.mark.slow
    def test_embedding_needs_no_torch_and_no_hub(self):
        """A key-less, small installation stays one."""
        heavy = imported_by(
            "import asyncio; from threadkeep.models.local import LocalEmbedder as It; asyncio.run(It().embed(['x']))"
        )

        assert "onnxruntime" in heavy
        assert not heavy & {"torch", "transformers", "huggingface_hub", "onnx"}

    @pytest.mark.slow
    def test_runtime_sends_no_telemetry(self, tmp_path: Path):
        """Its packages keep an id of the machine and a queue of events in the user's cache unless told not to."""
        program = (
            "import asyncio; from threadkeep.models.local import LocalEmbedder as It; asyncio.run(It().embed(['x']))"
        )
        quiet = ("ORT_", "XDG_", "CI")  # where CI is set it is silent of itself
        environment = {name: value for name, value in os.environ.items() if not name.startswith(quiet)}

        subprocess.run([sys.executable, "-c", program], check=True, env={**environment, "HOME": str(tmp_path)})

        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def imported_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())
