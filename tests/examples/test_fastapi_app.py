"""The FastAPI example: two users, and errors with a status, a code and a sentence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.curl import perform_commands

pytest.importorskip("fastapi", reason="FastAPI is not installed")

ANA = {"authorization": "Bearer token-of-ana"}
BOB = {"authorization": "Bearer token-of-bob"}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    sys.modules.pop("examples.fastapi_app", None)
    module = importlib.import_module("examples.fastapi_app")
    yield module
    module.tk.close()


@pytest.fixture
def client(example: Any) -> Iterator[Any]:
    from fastapi.testclient import TestClient

    with TestClient(example.app, raise_server_exceptions=False) as opened:
        yield opened


def test_its_own_commands_are_answered(client: Any, example: Any):
    """Those that its docstring gives."""
    said, listed = perform_commands(example.__doc__, client)

    assert (said.status_code, listed.status_code) == (200, 200), said.text


def test_each_user_is_remembered_alone(client: Any, example: Any):
    """Also with the same names of threads."""
    said = client.post("/chat", json={"thread": "1", "text": "I live in Lisbon."}, headers=ANA)
    example.tk.sync.drain()
    reply = client.post("/chat", json={"thread": "2", "text": "Do I live in Lisbon?"}, headers=ANA).json()["reply"]
    others = client.post("/chat", json={"thread": "1", "text": "Do I live in Lisbon?"}, headers=BOB).json()["reply"]

    assert said.status_code == 200
    assert "I live in Lisbon." in reply
    assert "I live in Lisbon." not in others
    assert "I live in Lisbon." in [row["text"] for row in client.get("/memories", headers=ANA).json()]
    assert "I live in Lisbon." not in [row["text"] for row in client.get("/memories", headers=BOB).json()]


def test_a_memory_is_forgotten(client: Any, example: Any):
    kept = example.tk.sync.memories.remember("I like tea", owner="ana@example.org")

    refused = client.delete(f"/memories/{kept.memory_id}", headers=BOB)
    done = client.delete(f"/memories/{kept.memory_id}", headers=ANA)

    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "memory_not_found")
    assert done.json() == [kept.memory_id]
    assert client.get("/memories", headers=ANA).json() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [
        ("GET", "/memories", None, {}, 401, "owner_required"),
        ("GET", "/memories", None, {"authorization": "Bearer nonsense"}, 401, "owner_required"),
        ("POST", "/chat", {"thread": "1", "text": "Hi"}, {}, 401, "owner_required"),
        ("DELETE", "/memories/nothing", None, ANA, 404, "memory_not_found"),
    ],
)
def test_errors_have_a_status_a_code_and_a_sentence(
    client: Any, method: str, path: str, body: Any, headers: dict[str, str], status: int, code: str
):
    answer = client.request(method, path, json=body, headers=headers)

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"].endswith(".")
