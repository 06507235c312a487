"""LangGraph's own suite for checkpointers, on each saver as we wrap it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from tests.threads.checkpoints import KEY
from tests.threads.conftest import Places
from threadkeep.event_loop import EventLoopThread
from threadkeep.identity import Owner
from threadkeep.threads.codec import Cipher
from threadkeep.threads.factory import checkpointer_over

OWNER = Owner("ana@x.org", "https://issuer.example")


class TestConforming:
    @pytest.mark.parametrize(
        ("owner", "options"),
        [
            pytest.param(None, {}, id="unscoped", marks=pytest.mark.slow),
            pytest.param(OWNER, {}, id="scoped", marks=pytest.mark.slow),
            pytest.param(OWNER, {"cipher": Cipher(KEY), "key_prefix": "blue"}, id="sealed"),
        ],
    )
    async def test_every_required_capability_passes_in_full(
        self,
        kind: str,
        owner: Owner | None,
        options: dict[str, Any],
        home: EventLoopThread,
        places: Places,
        tmp_path: Path,
    ):
        """All 58 tests of the required capabilities pass; those that the inner savers lack are not claimed."""
        url = places.url(kind)

        @checkpointer_test(name=f"{kind}-{owner}")
        async def factory() -> AsyncIterator[BaseCheckpointSaver[str]]:
            where = places.backend(kind, path=tmp_path / uuid4().hex / "checkpoints.sqlite3", url=url)
            checkpointer = checkpointer_over(where, home=home, **options)
            yield checkpointer.scoped(owner) if owner else checkpointer
            await checkpointer.aclose()

        report = await validate(factory)

        failures = [failure for result in report.results.values() for failure in result.failures]
        assert failures == []
        assert report.conformance_level() == "FULL"
        assert sum(result.tests_passed for result in report.results.values()) >= 58
        claimed = {name for name, result in report.results.items() if result.detected}
        pruning = {"prune", "copy_thread"}
        assert claimed == {"put", "put_writes", "get_tuple", "list", "delete_thread"} | pruning
