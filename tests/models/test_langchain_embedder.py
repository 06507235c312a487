"""A provider's embedder behind our port."""

from __future__ import annotations

import asyncio
import importlib.util
import traceback
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from threadkeep.errors import EmbedderUnavailableError, SettingsError
from threadkeep.models.langchain import LangChainEmbedder, embedder
from threadkeep.testing import HashingEmbeddings

SECRET = "sk-very-secret-1234"


class Given(Embeddings):
    """Gives the rows it was given, or raises; remembers what it was sent."""

    def __init__(self, rows: Any = None, *, error: Exception | None = None) -> None:
        self.rows, self.error = rows, error
        self.sent: list[str] = []

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.sent += texts
        if self.error:
            raise self.error
        return self.rows if self.rows is not None else [[3.0, 4.0]] * len(texts)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError


class Silent(Given):
    """Never answers."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await asyncio.Event().wait()
        return []


class RateLimitError(Exception):
    """As providers have it."""

    status_code = 429


class TestEmbed:
    async def test_rows_are_brought_to_unit_length(self):
        """Providers differ in whether theirs are."""
        vectors = await LangChainEmbedder(Given()).embed(["a", "b"])

        assert np.allclose(vectors, [[0.6, 0.8], [0.6, 0.8]])
        assert vectors.dtype == np.float32

    async def test_a_zero_vector_stays_zero(self):
        """Dividing by its length would make it no number."""
        vectors = await LangChainEmbedder(Given([[0.0, 0.0]])).embed(["a"])

        assert vectors.tolist() == [[0, 0]]

    async def test_a_synchronous_model_is_used_as_well(self):
        """LangChain runs it in a thread."""
        model = LangChainEmbedder(HashingEmbeddings(dims=32))

        vectors = await model.embed(["I like tea", "tea I like"])

        assert vectors[0] @ vectors[1] == pytest.approx(1)
        assert model.dims == 32

    async def test_a_question_is_paid_for_once(self):
        """The second time its vector is known."""
        given = Given()
        model = LangChainEmbedder(given)

        await model.embed(["who am I?"])
        await model.embed(["who am I?"])

        assert given.sent == ["who am I?"]

    @pytest.mark.parametrize(
        ("text", "sent"),
        [
            ("", "(empty)"),
            (" \n", "(empty)"),
            ("\x00", "(empty)"),
            ("a\ud800b", "a?b"),
            ("x" * 1_000_000, "x" * 24_000),
        ],
        ids=["empty", "blank", "nul", "surrogate", "megabyte"],
    )
    async def test_only_what_providers_take_is_sent(self, text: str, sent: str):
        """They refuse empty texts, half characters and megabytes."""
        given = Given()

        await LangChainEmbedder(given).embed([text])

        assert given.sent == [sent]

    @pytest.mark.parametrize("error", [RateLimitError(SECRET), ValueError(SECRET), KeyError(SECRET)])
    async def test_a_failure_is_ours_and_quotes_nothing(self, error: Exception):
        """What a provider says may hold the key: it stands in no message and in no traceback."""
        with pytest.raises(EmbedderUnavailableError, match=type(error).__name__) as caught:
            await LangChainEmbedder(Given(error=error)).embed(["a"])
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    async def test_a_failure_has_its_status(self):
        """It tells a wrong key from a busy server."""
        with pytest.raises(EmbedderUnavailableError, match="status 429"):
            await LangChainEmbedder(Given(error=RateLimitError())).embed(["a"])

    async def test_silence_ends(self):
        """After the time-out that was set."""
        with pytest.raises(EmbedderUnavailableError, match=r"did not answer within 0\.01 seconds"):
            await LangChainEmbedder(Silent(), timeout=timedelta(seconds=0.01)).embed(["a"])

    @pytest.mark.parametrize(
        "rows",
        [[], [[1.0], [2.0]], [[float("nan"), 1.0]], [["a"]], [1.0], [[[1.0]]]],
        ids=["none", "two", "nan", "text", "flat", "deep"],
    )
    async def test_what_is_no_vector_for_each_text_is_refused(self, rows: Any):
        """It would be stored under the wrong text, or break every search."""
        with pytest.raises(EmbedderUnavailableError):
            await LangChainEmbedder(Given(rows)).embed(["a"])

    async def test_another_length_than_expected_is_refused(self):
        """Vectors of two lengths cannot be compared."""
        with pytest.raises(EmbedderUnavailableError, match="vectors of 2 numbers; 3 were expected"):
            await LangChainEmbedder(Given(), dims=3).embed(["a"])

    async def test_the_length_is_learnt(self):
        """From the first vector, which is what being ready means."""
        model = LangChainEmbedder(Given())
        before = model.dims

        await model.ready()

        assert (before, model.dims) == (None, 2)


class TestName:
    def test_it_says_provider_and_model(self):
        """Vectors of different names are never compared."""
        given: Any = Given()
        given.model = "text-embedding-3-small"

        model = LangChainEmbedder(given)

        assert (model.name, model.dims) == ("tests:text-embedding-3-small", 1536)
        assert model.remote

    def test_a_shortened_vector_has_another_name(self):
        """OpenAI's ``dimensions`` gives vectors that are not those of the whole model."""
        given: Any = Given()
        given.model, given.dimensions = "text-embedding-3-large", 256

        model = LangChainEmbedder(given)

        assert (model.name, model.dims) == ("tests:text-embedding-3-large@256", 256)


class TestEmbedder:
    def test_an_unknown_provider_is_named(self):
        """With the variable to correct."""
        with pytest.raises(SettingsError, match="no model provider nope; correct EMBEDDINGS_PROVIDER"):
            embedder("nope", "x")

    def test_a_missing_package_is_named(self):
        """With the line that installs it."""
        if importlib.util.find_spec("langchain_cohere"):
            pytest.skip("langchain-cohere is installed")

        with pytest.raises(SettingsError, match="pip install langchain-cohere"):
            embedder("cohere", "embed-v4")

    def test_a_missing_key_is_named(self):
        """By its variable."""
        pytest.importorskip("langchain_openai")

        with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
            embedder("openai", "text-embedding-3-small")

    @pytest.mark.parametrize(
        ("model", "dims", "known", "name"),
        [
            ("text-embedding-3-small", None, 1536, "openai:text-embedding-3-small"),
            ("text-embedding-3-large", None, 3072, "openai:text-embedding-3-large"),
            ("text-embedding-ada-002", None, 1536, "openai:text-embedding-ada-002"),
            ("text-embedding-3-large", 3072, 3072, "openai:text-embedding-3-large"),
            ("text-embedding-3-large", 1024, 1024, "openai:text-embedding-3-large@1024"),
        ],
    )
    def test_the_length_is_known_before_the_first_call(
        self, model: str, dims: int | None, known: int, name: str, monkeypatch: pytest.MonkeyPatch
    ):
        """For OpenAI's models; another one is asked for where it is set."""
        pytest.importorskip("langchain_openai")
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")

        made = embedder("openai", model, dims)

        assert (made.dims, made.name, made.remote) == (known, name, True)
