"""Adapters of frameworks that are not in the lock, each in an environment of its own with the framework's package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import missing
from tests.fakes.model_server import ModelServer

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = Path(__file__).parent / "programs"
PACKAGES: Final = {
    "openai_agents": "openai-agents==0.24.0",
    "pydantic_ai": "pydantic-ai-slim==2.68.0",
    "llama_index": "llama-index-core==0.14.25",
}

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def installed(name: str) -> Path:
    """Return a folder with the framework and what it needs, which precedes our environment; made once."""
    folder = ROOT / ".build/frameworks" / PACKAGES[name].replace("==", "-")
    if not (folder / "ready").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", folder]
        done = subprocess.run([*command, PACKAGES[name]], capture_output=True, text=True, check=False)
        if done.returncode:
            missing(f"{PACKAGES[name]} ({done.stderr.strip()[-300:]})")
        (folder / "ready").touch()
    return folder


def printed(name: str, *arguments: str) -> Any:
    """Run a program with the framework, and return what it printed."""
    path = os.pathsep.join(map(str, (installed(name), ROOT / "src")))
    command = [sys.executable, PROGRAMS / f"{name}.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_openai_agents():
    """Sessions are kept for their owner, turns learnt from, and memory is in the model's input alone.

    A turn is learnt from however many calls of tools it has, and so is each of several at once.
    """
    with ModelServer(replies=("Noted.",)) as server:
        seen = printed("openai_agents", server.base_url)
        prompts = [str(request["messages"]) for request in server.requests]

    assert ["walnuts" in prompt for prompt in prompts] == [True, True, True, False, False]
    assert "Notes about the user" in prompts[2]
    assert seen == {
        "monday": 4,
        "newest": 1,
        "tuesday": ["user", "assistant"],
        "kept": False,
        "other": 4,
        "memories": ["I am allergic to walnuts."],
        "of_bob": [],
        "long": ["I play the cello."],
        "at_once": 12,
        "popped": "assistant",
        "cleared": [],
    }


@pytest.mark.parametrize("name", ["pydantic_ai", "llama_index"])
def test_agents_recall_what_another_conversation_taught(name: str):
    """For its own user; the framework's history does not hold the block. A turn may be long, or fail."""
    seen = printed(name)
    assert seen.pop("hard") == ["I play the cello."]
    assert seen == {"prompts": [True, True, False], "kept": False, "memories": ["I am allergic to walnuts."]}


def test_documented_example_of_openai_agents(tmp_path: Path):
    """The SDK's quick start of sessions runs with ours, over two clients; then a question is taken back."""
    replies = ("San Francisco.", "California.", "About 39 million.")
    with ModelServer(replies=replies) as server:
        seen = printed("openai_agents", server.base_url, str(tmp_path))
        roles = [[message["role"] for message in request["messages"]] for request in server.requests]

    assert seen == {"answers": [*replies], "roles": ["assistant", "user", *["user", "assistant"] * 2]}
    assert roles == [["user"], ["user", "assistant", "user"], ["user", "assistant"] * 2 + ["user"]]


def test_documented_example_of_pydantic_ai():
    """A run that is given its history has the memory, too, and a later run has it without the history."""
    assert printed("pydantic_ai", "example") == {
        "prompts": [True, True, True],
        "history": ["request", "response"] * 2,
        "of": ["I play the cello."],
    }


def test_documented_example_of_llama_index():
    """An agent with tools runs with our memory; the short-term memory is as short as its limit says."""
    assert printed("llama_index", "example") == {
        "prompts": [True, True],
        "kept": ["user", "assistant"],
        "short": True,
    }
