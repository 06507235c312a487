"""A model that reads a request and a statement tells recall whether the request needs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import threadkeep
from tests.recall.test_changes import delay, tell
from threadkeep.identity import Owner
from threadkeep.models.base import NeedPair, StatementPair
from threadkeep.models.pairs import PairModel
from threadkeep.settings import Settings

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

    async def test_a_model_that_is_late_is_waited_for_once(self, monkeypatch: pytest.MonkeyPatch):
        """Also where a shared scope is read beside the owner's memory."""
        team = Owner("kitchen", kind="team")
        async with threadkeep.open("memory://", settings=Settings(THREADKEEP_RECALL_TIMEOUT_MS=300)) as tk:
            await tell(tk, *TOLD)
            await tk.scopes.create(team)
            for member in ("bea", "carl"):
                await tk.scopes.grant(team, member, role="review")
            kept = await tk.memories.remember(TOLD[0], owner="bea")
            proposal = (await tk.scopes.promote(team, kept.memory_id, owner="bea")).proposal
            assert proposal is not None
            await tk.scopes.approve(team, proposal.proposal_id, owner="carl")
            await tk.recall("", owner=Owner("ana"))  # loads the models
            delay(tk._app.services.recalls._pair_models.needs, monkeypatch)

            recalled = await tk.recall(REQUEST, owner=Owner("ana"), read_scopes=[team])

            counted = tk._app.telemetry.counts()["needs.degraded"]
        assert counted == 1
        assert recalled.memories == ()
        assert recalled.degraded == ()

    async def test_each_model_reads_its_own_pairs(self, monkeypatch: pytest.MonkeyPatch):
        """A value of the profile is compared with what is newer while the request is read."""
        read: list[tuple[str, type]] = []
        async with threadkeep.open("memory://") as tk:
            await tell(tk, "i'm on a keto diet", "im on the paleo thing these days, no more keto", *TOLD)
            await tk.recall("", owner=Owner("ana"))  # loads the models
            for model in tk._app.services.recalls._pair_models:
                assert model is not None
                monkeypatch.setattr(model, "weigh", recording(model, read))

            await tk.recall("pick a place for lunch in Vienna", owner=Owner("ana"))

        assert set(read) == {("changes", StatementPair), ("needs", NeedPair)}


def recording(model: PairModel, read: list[tuple[str, type]]):
    """Return the model's ``weigh``, which then adds what it reads to *read*."""
    weigh = model.weigh

    async def recorded(pairs: Sequence[tuple[str, str]]) -> list[float]:
        read.extend((model.name, type(pair)) for pair in pairs)
        return await weigh(pairs)

    return recorded
