"""Models on this machine's CPU: the embedder with no key, all-MiniLM-L6-v2, and other small ONNX models.

All need the extra ``local``: onnxruntime, tokenizers, and the model MiniLM itself, which is a distribution of its own
(``threadkeep-minilm``). Other models are downloaded once by ``huggingface_hub``, which comes with ``tokenizers``; a
folder is read as it is. Nothing of them is imported before the first text is embedded; no text leaves the machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from typing_extensions import override

from threadkeep.concurrency import queued
from threadkeep.errors import EmbedderUnavailableError, SettingsError
from threadkeep.models.base import LOCAL_NAME
from threadkeep.models.embedding import MAX_TOKENS, Batches, Encode, VectorCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pooling: TypeAlias = Literal["mean", "cls"]

_ONNX_TOKENS: Final = 512
"""What models by name see of a text, and of a question and a text together."""
MAX_CHARACTERS: Final = 16_384
"""What is read of a text. A model sees 256 or 512 tokens; tokenising a megabyte would take most of a second to throw
it away."""
MAX_CHARACTERS_NOW: Final = 600
"""Longer queries are embedded in the worker thread: on the calling thread they would take more than a few ms."""

_NEEDED: Final = ("onnxruntime", "tokenizers")
_GRAPHS: Final = ("onnx/model_quantized.onnx", "model_quantized.onnx", "onnx/model.onnx", "model.onnx")
"""Where models are in their repositories; the int8 ones first."""
_TOKENIZER: Final = "tokenizer.json"
_DIGEST_CHARACTERS: Final = 12


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model that is known by name.

    Attributes:
        repository: Its repository at Hugging Face.
        pooling: How the vectors of tokens become one.
        query: What stands before a question.
        passage: What stands before a text.
    """

    repository: str
    pooling: Pooling = "mean"
    query: str = ""
    passage: str = ""


EMBEDDERS: Final[Mapping[str, OnnxModel]] = {
    "bge-small-en-v1.5": OnnxModel(
        "Xenova/bge-small-en-v1.5", "cls", "Represent this sentence for searching relevant passages: "
    ),
    "arctic-embed-s": OnnxModel(
        "Snowflake/snowflake-arctic-embed-s", "cls", "Represent this sentence for searching relevant passages: "
    ),
    "gte-small": OnnxModel("Xenova/gte-small"),
    "multilingual-e5-small": OnnxModel("Xenova/multilingual-e5-small", "mean", "query: ", "passage: "),
}
"""What ``EMBEDDINGS_MODEL`` may be with ``EMBEDDINGS_PROVIDER=onnx``, beside a folder."""

CROSS_ENCODERS: Final[Mapping[str, OnnxModel]] = {
    "ms-marco-minilm-l6-v2": OnnxModel("Xenova/ms-marco-MiniLM-L-6-v2"),
}
"""What ``THREADKEEP_RERANKER=onnx:…`` may name, beside a folder."""


class _CpuEmbedder:
    """What the embedders on this machine share; see :class:`threadkeep.models.base.Embedder`.

    Constructing one does nothing. The model is loaded once, in a worker thread, however many calls arrive together; it
    may be used from any event loop.

    Args:
        name: The name of the model, under which vectors are stored.
        load: Loads the model and returns the function from texts to unit vectors; runs in the worker.
        cache_bytes: Upper bound for the vectors of recent questions, in bytes.
    """

    dims: int | None = None
    remote: bool = False

    def __init__(self, name: str, load: Callable[[], Encode], *, cache_bytes: int) -> None:
        self.name = name
        self._cache = VectorCache(max_bytes=cache_bytes)
        self._batches = Batches(load)

    async def ready(self) -> None:
        """Load the model.

        Raises:
            EmbedderUnavailableError: A package or the model is missing or broken; the message says which.
        """
        if not self._batches.loaded:
            await asyncio.wrap_future(self._batches.submit(()))

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape ``(len(texts), dims)``, in the order given; the same text is embedded once.

        Raises:
            EmbedderUnavailableError: The model could not be loaded or did not run.
        """
        import numpy as np

        if not texts:
            if self.dims is None:
                await self.ready()
            return np.zeros((0, self.dims or 0), dtype=np.float32)
        return await self._cache.embed(list(map(embeddable, texts)), self._compute)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """See :meth:`threadkeep.models.base.ImmediateEmbedder.embed_now`; of questions."""
        texts = list(map(embeddable, texts))
        vectors = self._cache.get_all(texts)
        encode = self._batches.encode
        if vectors is not None or encode is None or sum(map(len, texts)) > MAX_CHARACTERS_NOW:
            return vectors
        vectors = encode(texts)
        for text, vector in zip(texts, vectors, strict=True):
            self._cache.put(text, vector)
        return vectors

    async def _compute(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        with queued():  # it computes in this process
            return await asyncio.wrap_future(self._batches.submit(texts))


class OnnxEmbedder(_CpuEmbedder):
    """Embeds texts with a small ONNX model; see :class:`threadkeep.models.base.Embedder`.

    Questions get the prefix that the model was trained with; see :class:`threadkeep.models.base.QueryEmbedder`.

    Args:
        model: One of :data:`EMBEDDERS`, or a folder with ``model.onnx`` (or ``model_quantized.onnx``) and
            ``tokenizer.json``. Pooling and prefixes of a folder are read from the files of sentence-transformers, where
            they are there.
        threads: Cores that one batch may use; by default half of them, at most 4.
        cache_bytes: Upper bound for the vectors of recent questions, in bytes.

    Raises:
        SettingsError: The name is unknown, or the folder holds no model.
    """

    def __init__(self, model: str, *, threads: int | None = None, cache_bytes: int = 8 * 1024 * 1024) -> None:
        self._known, self._folder = find_model(model, EMBEDDERS, variable="EMBEDDINGS_MODEL")
        self._threads = threads or default_threads()
        name = f"onnx:{model}@1" if self._folder is None else f"onnx:{_digest(self._folder)}"
        super().__init__(name, self._loaded, cache_bytes=cache_bytes)

    @override
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await super().embed([self._known.passage + embeddable(text) for text in texts])

    async def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors of questions."""
        return await super().embed([self._known.query + embeddable(text) for text in texts])

    @override
    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        return super().embed_now([self._known.query + embeddable(text) for text in texts])

    def _loaded(self) -> Encode:
        """Load tokenizer and model; runs in the worker."""
        try:
            folder = self._folder or download(self._known)
            encode = _sentence_encoder(folder, self._known.pooling, threads=self._threads)
            self.dims = int(encode(["How long is a vector?"]).shape[1])
        except EmbedderUnavailableError:
            raise
        except Exception as error:
            msg = f"The embedding model {self.name} could not be loaded ({type(error).__name__}: {str(error)[:200]})."
            raise EmbedderUnavailableError(msg) from error
        return encode


def find_model(name: str, known: Mapping[str, OnnxModel], *, variable: str) -> tuple[OnnxModel, Path | None]:
    """Return what is known of the model *name*, and its folder where it is one.

    Raises:
        SettingsError: It is no known name, and no folder with a model.
    """
    if model := known.get(name):
        return model, None
    folder = Path(name).expanduser()
    missing = [what for what, there in _parts(folder) if not there]
    if missing:
        msg = (
            f"{variable} is {name[:80]!r}, and {' and '.join(missing)} is missing there; give a folder with an ONNX "
            f"model, or one of {', '.join(known)}."
        )
        raise SettingsError(msg, variable=variable)
    return _described(folder), folder


def _parts(folder: Path) -> list[tuple[str, bool]]:
    return [("model.onnx", _graph(folder) is not None), (_TOKENIZER, (folder / _TOKENIZER).is_file())]


def _graph(folder: Path) -> Path | None:
    return next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)


def _described(folder: Path) -> OnnxModel:
    """Read pooling and prefixes of a folder that sentence-transformers wrote; mean and none where nothing says so."""
    pooling = _json(folder / "1_Pooling" / "config.json")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts")
    told: Mapping[str, Any] = cast("Mapping[str, Any]", prompts) if isinstance(prompts, dict) else {}
    return OnnxModel(
        repository="",
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        query=str(told.get("query") or ""),
        passage=str(told.get("document") or told.get("passage") or ""),
    )


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _digest(folder: Path) -> str:
    """Return the folder's name with a digest of its model: another model in its place is another embedder."""
    graph = _graph(folder)
    digest = hashlib.sha256()
    for path in (graph, folder / _TOKENIZER, folder / "1_Pooling" / "config.json"):
        if path is not None and path.is_file():
            digest.update(path.read_bytes())
    return f"{folder.resolve().name}@{digest.hexdigest()[:_DIGEST_CHARACTERS]}"


def download(model: OnnxModel) -> Path:
    """Return the folder of a known model, downloaded where it is not in the cache of ``huggingface_hub`` yet.

    Raises:
        EmbedderUnavailableError: It cannot be downloaded.
    """
    _require()
    if importlib.util.find_spec("huggingface_hub") is None:
        msg = f"{model.repository} must be downloaded; run: pip install huggingface-hub, or name a folder."
        raise EmbedderUnavailableError(msg)
    hub: Any = importlib.import_module("huggingface_hub")
    patterns = [*_GRAPHS[:1], _TOKENIZER]
    try:
        return Path(hub.snapshot_download(model.repository, allow_patterns=patterns))
    except Exception as error:
        msg = (
            f"{model.repository} could not be downloaded ({type(error).__name__}); download it where there is a "
            "network, and name its folder."
        )
        raise EmbedderUnavailableError(msg) from error


def _require() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        msg = f"ONNX models need {' and '.join(missing)}; {ADVICE}"
        raise EmbedderUnavailableError(msg, missing=missing)


def open_session(model: Path, *, threads: int) -> Any:
    """Open an ONNX model on the CPU, without telemetry and without spinning threads."""
    _require()
    from threadkeep.settings import disable_onnxruntime_telemetry

    disable_onnxruntime_telemetry()
    onnxruntime: Any = importlib.import_module("onnxruntime")
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # on a busy machine it doubles the cost
    options.log_severity_level = 4  # only what is fatal; everything else is raised as well
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def open_tokenizer(path: Path, *, max_tokens: int) -> Any:
    """Open a tokenizer that cuts at *max_tokens* and does not pad."""
    tokenizers: Any = importlib.import_module("tokenizers")
    words = tokenizers.Tokenizer.from_file(str(path))
    words.enable_truncation(max_tokens)
    words.no_padding()
    return words


def inputs_of(session: Any, encodings: Sequence[Any]) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Return what *session* asks for of *encodings*, padded to the longest, and the mask."""
    import numpy as np

    shape = (len(encodings), max(len(one.ids) for one in encodings))
    given = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    for row, one in enumerate(encodings):
        length = len(one.ids)
        given["input_ids"][row, :length] = one.ids
        given["attention_mask"][row, :length] = 1
        given["token_type_ids"][row, :length] = one.type_ids
    asked = {one.name for one in session.get_inputs()}
    return {name: values for name, values in given.items() if name in asked}, given["attention_mask"]


def _sentence_encoder(folder: Path, pooling: Pooling, *, threads: int) -> Encode:
    """Load the model and return the function from texts to unit vectors."""
    import numpy as np

    graph = _graph(folder)
    if graph is None:
        msg = f"{folder} has no ONNX model: pass a folder with model_quantized.onnx or model.onnx."
        raise EmbedderUnavailableError(msg)
    session = open_session(graph, threads=threads)
    words = open_tokenizer(folder / _TOKENIZER, max_tokens=_ONNX_TOKENS)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            # One by one: the batch call starts threads of its own, which warn when the process forks.
            given, mask = inputs_of(session, [words.encode(text) for text in texts])
            output: NDArray[np.float32] = session.run(None, given)[0]
        except Exception as error:
            msg = f"The embedding model of {folder.name} did not run ({type(error).__name__})."
            raise EmbedderUnavailableError(msg) from error
        vectors = output if output.ndim == 2 else _pooled(output, mask, pooling)  # noqa: PLR2004 - one vector for each text
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            msg = f"The embedding model of {folder.name} returned a vector that is not finite; choose another model."
            raise EmbedderUnavailableError(msg)
        return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)

    return encode


def _pooled(output: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    if pooling == "cls":
        return output[:, 0]
    weights = mask[:, :, None].astype(output.dtype)
    return (output * weights).sum(axis=1) / weights.sum(axis=1)


def open_cross_encoder(model: str) -> Callable[[str, Sequence[str]], Sequence[float]]:
    """Load a cross-encoder and return the function from a question and texts to a score for each.

    Args:
        model: One of :data:`CROSS_ENCODERS`, or a folder.

    Raises:
        SettingsError: The name is unknown, or the folder holds no model.
        EmbedderUnavailableError: It cannot be loaded.
    """
    import numpy as np

    known, folder = find_model(model, CROSS_ENCODERS, variable="THREADKEEP_RERANKER")
    folder = folder or download(known)
    graph = _graph(folder)
    if graph is None:
        msg = f"{folder} has no ONNX model: pass a folder with model_quantized.onnx or model.onnx."
        raise EmbedderUnavailableError(msg)
    session = open_session(graph, threads=default_threads())
    words = open_tokenizer(folder / _TOKENIZER, max_tokens=_ONNX_TOKENS)

    def score(question: str, texts: Sequence[str]) -> Sequence[float]:
        pairs = [words.encode(embeddable(question)[:2_000], embeddable(text)) for text in texts]
        scores = np.zeros(len(pairs), dtype=np.float64)
        # Pairs of like length run together, so that little of a batch is padding.
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].ids))
        for start in range(0, len(order), _PAIRS):
            places = order[start : start + _PAIRS]
            given, _ = inputs_of(session, [pairs[place] for place in places])
            output = np.asarray(session.run(None, given)[0], np.float64).reshape(len(places), -1)
            # Two columns are the logits of "no" and "yes".
            scores[places] = output[:, 0] if output.shape[1] == 1 else output[:, 1] - output[:, 0]
        return [float(one) for one in scores]

    return score


_PAIRS: Final = 8


def default_threads() -> int:
    """Return how many cores one batch uses: half of them, at most 4."""
    return min(4, max(1, (os.cpu_count() or 1) // 2))


def embeddable(text: str) -> str:
    """Return what the tokenizer takes: no half characters, and not much more than the model sees."""
    return text.lstrip()[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


DIMS: Final = 384
ADVICE: Final = 'run: pip install "threadkeep[local]"'

Precision: TypeAlias = Literal["int8", "fp32"]

MODELS: Final[Mapping[str, Precision]] = {"minilm-l6-v2-int8": "int8", "minilm-l6-v2-fp32": "fp32"}
"""What ``EMBEDDINGS_MODEL`` may be with ``EMBEDDINGS_PROVIDER=local``."""

_NAMES: Final[Mapping[Precision, str]] = {"int8": LOCAL_NAME, "fp32": "minilm-l6-v2-fp32@2"}
_ADVICE: Final[Mapping[Precision, str]] = {
    "int8": ADVICE,
    "fp32": "it is built by `make setup` in a checkout of Threadkeep; or set EMBEDDINGS_MODEL to minilm-l6-v2-int8",
}

NEEDED: Final = ("onnxruntime", "tokenizers", "threadkeep_minilm")


def available(precision: Precision = "int8") -> bool:
    """Return whether the local model is installed, without importing anything heavy."""
    return not _missing(precision)


def missing_packages() -> list[str]:
    """Return which of the packages are not installed that a model of ``threadkeep-minilm`` needs."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def _missing(precision: Precision) -> list[str]:
    """Return what is not installed, or not built, of what the model needs."""
    if missing := missing_packages():
        return missing
    model, tokenizer = _paths(precision)
    return [path.name for path in (model, tokenizer) if not path.is_file()]


def _paths(precision: Precision) -> tuple[Path, Path]:
    package: Any = importlib.import_module("threadkeep_minilm")
    return package.MODEL_PATH if precision == "int8" else package.FP32_PATH, package.TOKENIZER_PATH


class LocalEmbedder(_CpuEmbedder):
    """Embeds texts with MiniLM: 384 dimensions, 256 tokens. A vector does not depend on what is embedded with it.

    Args:
        precision: Of the model's weights; vectors of the two are near each other and never compared.
        threads: Cores that one batch may use; by default half of them, at most 4. The other half is for the turn.
        cache_bytes: Upper bound for the vectors of recent questions, in bytes.

    Source:
        Measured on one core of a machine with AVX-512 VNNI: 0.4 s to load with all imports, 1.2–1.6 ms a question
        of 13 tokens (after a pause 1.8–2.6 ms), 500 turns of a conversation (34 tokens) a second.
    """

    dims: int | None = DIMS

    def __init__(
        self, *, precision: Precision = "int8", threads: int | None = None, cache_bytes: int = 8 * 1024 * 1024
    ) -> None:
        self._precision: Precision = precision
        self._threads = threads or default_threads()
        super().__init__(_NAMES[precision], self._loaded, cache_bytes=cache_bytes)

    def _loaded(self) -> Encode:
        """Load tokenizer and model; runs in the worker."""
        missing, advice = _missing(self._precision), _ADVICE[self._precision]
        if missing:
            msg = f"The local embedding model is not installed ({', '.join(missing)} missing); {advice}"
            raise EmbedderUnavailableError(msg, missing=missing)
        try:
            return _minilm_encoder(*_paths(self._precision), threads=self._threads)
        except Exception as error:
            msg = f"The local embedding model could not be loaded ({type(error).__name__}); {advice} once more."
            raise EmbedderUnavailableError(msg) from error


def _minilm_encoder(model: Path, tokenizer: Path, *, threads: int) -> Encode:
    """Load the model and return the function from texts to vectors."""
    import numpy as np

    session = open_session(model, threads=threads)
    words = open_tokenizer(tokenizer, max_tokens=MAX_TOKENS)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            # One by one: the batch call starts threads of its own, which warn when the process forks.
            rows: list[list[int]] = [words.encode(text).ids for text in texts]
            token_ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
            mask = np.zeros_like(token_ids)
            for place, row in enumerate(rows):
                token_ids[place, : len(row)] = row
                mask[place, : len(row)] = 1
            vectors: NDArray[np.float32] = session.run(None, {"input_ids": token_ids, "attention_mask": mask})[0]
        except Exception as error:
            msg = f"The local embedding model did not run ({type(error).__name__})."
            raise EmbedderUnavailableError(msg) from error
        return vectors

    return encode
