"""Commands of installed packages: listed, run, and named in a message where their package is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError

_EXTENSION = """\
import typer

app = typer.Typer()


@app.command()
def hello(name: str) -> None:
    print(f"Hello {name}")
"""


@pytest.fixture
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with the command ``greet`` and another one named like a command of Threadkeep."""
    metadata = tmp_path / "greeting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[threadkeep.commands]\ngreet = greeting_commands:app\nmemories = greeting_commands:app\n"
    )
    (tmp_path / "greeting_commands.py").write_text(_EXTENSION)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("extension")
class TestInstalledPackage:
    def test_its_command_is_listed_and_runs(self):
        listed = CliRunner().invoke(app, ["--help"])
        result = CliRunner().invoke(app, ["greet", "Ana"])

        assert "greet" in listed.stdout
        assert result.stdout == "Hello Ana\n"

    def test_its_command_does_not_replace_one_of_threadkeep(self):
        result = CliRunner().invoke(app, ["memories", "--help"])

        assert "Hello" not in result.stdout
        assert "list" in result.stdout


class TestMissingPackage:
    @pytest.mark.parametrize("command", ["bench", "eval", "replay"])
    def test_the_message_names_the_package_to_install(self, command: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())

        result = CliRunner().invoke(app, [command])

        assert isinstance(result.exception, InvalidInputError)
        assert str(result.exception).endswith("Install it: pip install threadkeep-evals")

    def test_an_unknown_command_is_a_usage_error(self):
        result = CliRunner().invoke(app, ["remember-all"])

        assert result.exit_code == 2


def test_entry_points_are_not_read_for_a_command_of_threadkeep():
    program = (
        "import importlib.metadata, sys\n"
        "def fail(**_): raise AssertionError('entry points were read')\n"
        "importlib.metadata.entry_points = fail\n"
        "sys.argv = ['threadkeep', 'memories', 'list', '--help']\n"
        "from threadkeep.cli.main import main\n"
        "main()\n"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
