"""A model that reads a request and a statement tells recall whether the request needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import threadkeep
from tests.recall.test_changes import tell
from threadkeep.identity import Owner

TOLD = (
    "coriander tastes of soap to me and it always will",
    "Our production database credentials get rotated on the first Monday of a month.",
    "My sister plays the tuba in a marching band.",
)
REQUEST = "give me a recipe for salsa verde tacos"


@pytest.mark.model
class TestRecall:
    async def test_a_request_brings_what_it_needs(self):
        """Though the statement is not close enough to it by its vector."""
        async with threadkeep.open("memory://") as tk:
            await tell(tk, *TOLD)

            block = (await tk.recall(REQUEST, owner=Owner("ana"))).text

        assert "coriander" in block

    @pytest.mark.parametrize("request_", ["How tall is Mount Kenya?", "thanks, that worked", "Write a poem about fog."])
    async def test_what_needs_nothing_brings_nothing(self, request_: str):
        async with threadkeep.open("memory://") as tk:
            await tell(tk, *TOLD)

            assert (await tk.recall(request_, owner=Owner("ana"))).memories == ()

    async def test_without_the_model_closeness_decides(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        """A broken one is counted and logged once, and takes no other memory."""
        broken = tmp_path / "needs.onnx"
        broken.write_bytes(b"no model")
        monkeypatch.setattr("threadkeep_minilm.NEEDS_PATH", broken)
        async with threadkeep.open("memory://") as tk:
            await tell(tk, *TOLD)

            recalled = [await tk.recall(REQUEST, owner=Owner("ana")) for _ in range(2)]
            own = await tk.recall("What does my sister play?", owner=Owner("ana"))

            counted = tk._app.telemetry.counts()["needs.degraded"]
        assert [one.memories for one in recalled] == [(), ()]
        assert "tuba" in own.text
        assert counted == 1
        assert len([one for one in caplog.records if "needs failed" in one.message]) == 1
