"""PostgreSQL stops to answer while users talk: nothing that a client was told to be kept is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.load.stalled import NAMED_SECONDS, QUICK, Stall, stall_storage
from threadkeep.errors import StorageDeniedError, StorageUnavailableError
from threadkeep.process_state import PROBE_EVERY_SECONDS, PROBE_SECONDS, StorageProbe

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


class TestStorageProbe:
    async def test_a_question_that_waits_too_long_is_an_error(self):
        """No timer has to run: the reader compares the time of the question with the clock."""
        now, silent, asked = 0.0, False, asyncio.Event()

        async def ask() -> None:
            if silent:
                asked.set()
                await asyncio.Event().wait()

        probe = StorageProbe(ask, clock=lambda: now)
        assert probe.error == "storage_unavailable"
        await probe.probe()
        assert probe.error is None
        silent = True
        waiting = asyncio.create_task(probe.probe())
        await asked.wait()

        assert probe.error is None
        now += PROBE_SECONDS
        assert probe.error == "storage_unavailable"
        waiting.cancel()

    def test_the_limits_name_it_in_time(self):
        assert PROBE_EVERY_SECONDS + PROBE_SECONDS < NAMED_SECONDS

    async def test_an_error_is_an_answer(self):
        """The storage is not usable, but it does not stall: turns get its error."""

        async def ask() -> None:
            raise StorageDeniedError("No.")

        probe = StorageProbe(ask)
        await probe.probe()

        assert (probe.error, probe.stalled) == ("storage_denied", False)

    async def test_one_connection_that_broke_is_no_stall(self):
        """Turns are refused once the next question could not be asked either."""
        broken = False

        async def ask() -> None:
            if broken:
                raise StorageUnavailableError("The connection broke.")

        probe = StorageProbe(ask)
        await probe.probe()
        broken = True
        await probe.probe()
        assert (probe.error, probe.stalled) == ("storage_unavailable", False)
        await probe.probe()
        assert probe.stalled


@pytest.mark.slow
@pytest.mark.linux
class TestStalledStorage:
    @pytest.mark.long
    async def test_turns_go_on_where_threads_are_elsewhere(self):
        """Each turn is answered to its end, and is kept in its thread."""
        stall = await stall_storage(
            "elsewhere", users=2, before=1, seconds=4, after=1, with_twin=False, environment=QUICK, forked=True
        )

        require_noticed(stall)
        assert [pair.word for pair in stall.pairs if not pair.seen.complete] == []

    @pytest.mark.long
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
            forked=True,
        )

        require_noticed(stall)
        assert {pair.seen.status for pair in stall.pairs} == {200, 503}
        assert all(pair.seen.retries for pair in stall.pairs if pair.seen.status == 503)
