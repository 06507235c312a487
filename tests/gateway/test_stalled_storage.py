"""PostgreSQL stops to answer while users talk: nothing that a client was told to be kept is lost."""

from __future__ import annotations

import pytest

from tests.gateway.load.stalled import QUICK, Stall, stall_storage

TIMEOUT = {"THREADKEEP_CHECKPOINT_TIMEOUT_SECONDS": "2"}


def refused(stall: Stall) -> bool:
    """Return whether a turn that was sent during the stall got 503."""
    return stall.met and 503 in {pair.seen.status for pair in stall.during}


def require_noticed(stall: Stall) -> None:
    """Check what holds wherever the threads are."""
    assert stall.during
    assert stall.named_after is not None
    assert stall.ready_again
    assert not stall.faults, stall.faults


@pytest.mark.slow
@pytest.mark.linux
class TestStalledStorage:
    async def test_turns_go_on_where_threads_are_elsewhere(self):
        """Each turn is answered to its end, and is kept in its thread."""
        stall = await stall_storage(
            "elsewhere", users=2, before=1, seconds=4, after=1, with_twin=False, environment=QUICK
        )

        require_noticed(stall)
        assert [pair.word for pair in stall.pairs if not pair.seen.complete] == []

    async def test_turns_are_refused_at_once_where_threads_are_in_it(self):
        """Those in progress end within the timeout of checkpoints; new ones get 503; then each thread goes on."""
        stall = await stall_storage(
            "in it",
            users=3,
            before=1,
            seconds=4,
            until=refused,
            after=2,
            with_twin=False,
            environment=QUICK | TIMEOUT,
        )

        require_noticed(stall)
        assert {pair.seen.status for pair in stall.pairs} == {200, 503}
        assert all(pair.seen.retries for pair in stall.pairs if pair.seen.status == 503)
