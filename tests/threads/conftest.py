"""A checkpointer of each kind on a home loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from threadkeep.home import Home
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer

MakeCheckpointer = Callable[..., ThreadkeepCheckpointer]


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    home.close()


@pytest.fixture(params=["memory", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "checkpoints.sqlite3"


@pytest.fixture
def make(home: Home, path: Path) -> Iterator[MakeCheckpointer]:
    """Return a function that makes checkpointers, which are closed after the test."""
    made: list[ThreadkeepCheckpointer] = []

    def make(kind: Any, **options: Any) -> ThreadkeepCheckpointer:
        options.setdefault("path", path if kind == "sqlite" else None)
        made.append(ThreadkeepCheckpointer(kind, home=home, **options))
        return made[-1]

    yield make
    for checkpointer in made:
        checkpointer.close()


@pytest.fixture
def checkpointer(kind: str, make: MakeCheckpointer) -> ThreadkeepCheckpointer:
    return make(kind)
