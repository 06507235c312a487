"""Deep agents' file backends over our store give what they give over LangGraph's own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

import threadkeep

backends = pytest.importorskip("deepagents.backends", reason="deepagents is not installed")

FILES: Final = ("filesystem",)
CONTENT: Final = "first line about tea\nsecond line\n\nüñï 日本語 🍵\nlast about tea"

CALLS: Final[tuple[tuple[Any, ...], ...]] = (
    ("ls", "/"),
    ("read", "/missing.md"),
    ("write", "/readme.md", CONTENT),
    ("write", "/readme.md", "again"),
    ("write", "/docs/a.b/c_d%.md", "a path with a period, an underscore and a percent sign"),
    ("write", "/docs/guide.md", "how to brew tea"),
    ("write", "/docs/empty.md", ""),
    ("write", "/src/main.py", "print('tea')"),
    ("write", "/memories/ana.md", "Ana drinks green tea"),
    ("read", "/readme.md"),
    ("read", "/readme.md", 1, 2),
    ("read", "/readme.md", 99, 2),
    ("read", "/memories/ana.md"),
    ("edit", "/readme.md", "tea", "coffee"),
    ("edit", "/readme.md", "tea", "coffee", True),
    ("edit", "/readme.md", "not in it", "coffee"),
    ("edit", "/missing.md", "a", "b"),
    ("edit", "/memories/ana.md", "green", "black"),
    ("ls", "/"),
    ("ls", "/docs"),
    ("ls", "/docs/"),
    ("ls", "/memories/"),
    ("ls", "/nowhere/"),
    ("glob", "*.md"),
    ("glob", "**/*.md"),
    ("glob", "*.md", "/docs"),
    ("grep", "tea"),
    ("grep", "coffee", "/readme.md"),
    ("grep", "brew", "/docs", "*.md"),
    ("grep", "[unclosed"),
    ("upload_files", [("/up.txt", b"uploaded"), ("/raw.bin", bytes(range(256)))]),
    ("download_files", ["/up.txt", "/raw.bin", "/missing.bin"]),
    *(("write", f"/many/{number:03}.txt", f"file {number}") for number in range(230)),
    ("glob", "/many/*.txt"),
    ("ls", "/many"),
    ("delete", "/many/007.txt"),
    ("delete", "/docs"),
    ("delete", "/missing.md"),
    ("ls", "/"),
    ("glob", "**/*"),
)
"""Calls of a backend in this order; the many files are more than two pages of its searches."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'm.db'}"
    with threadkeep.open(url, embedder="none") as tk:
        yield tk.store


def on_store(store: BaseStore) -> Any:
    return backends.StoreBackend(store=store, namespace=lambda _: FILES)


def composite(store: BaseStore) -> Any:
    """Files of two folders in the store, each in a namespace of its own."""
    memories = backends.StoreBackend(store=store, namespace=lambda _: ("users", "ana", "files"))
    return backends.CompositeBackend(default=on_store(store), routes={"/memories/": memories})


def comparable(result: Any) -> Any:
    """Return *result* as plain values: without times, and in an order that does not depend on them."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return comparable({field.name: getattr(result, field.name) for field in dataclasses.fields(result)})
    if isinstance(result, dict):
        return {name: comparable(value) for name, value in result.items() if not name.endswith("_at")}
    return sorted(map(comparable, result), key=repr) if isinstance(result, list) else result


@pytest.mark.parametrize("backend", [on_store, composite])
class TestSameResults:
    def test_blocking_calls(self, backend: Any, store: BaseStore):
        ours, theirs = backend(store), backend(InMemoryStore())

        for name, *arguments in CALLS:
            expected = comparable(getattr(theirs, name)(*arguments))
            assert comparable(getattr(ours, name)(*arguments)) == expected, (name, arguments)

        assert keys_of(store) == keys_of(theirs_store(theirs))

    async def test_asynchronous_calls(self, backend: Any, store: BaseStore):
        ours, theirs = backend(store), backend(InMemoryStore())

        for name, *arguments in CALLS:
            expected = comparable(await answer(theirs, name, arguments))
            assert comparable(await answer(ours, name, arguments)) == expected, (name, arguments)


async def answer(backend: Any, name: str, arguments: list[Any]) -> Any:
    result: Awaitable[Any] | Any = getattr(backend, f"a{name}")(*arguments)
    return await result if inspect.isawaitable(result) else result


def theirs_store(backend: Any) -> BaseStore:
    return getattr(backend, "default", backend)._store


def keys_of(store: BaseStore) -> set[tuple[tuple[str, ...], str]]:
    found = [*store.search(FILES, limit=1000), *store.search(("users", "ana"), limit=1000)]
    return {(tuple(item.namespace), item.key) for item in found}
