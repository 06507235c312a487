"""PostgreSQL stops to answer while users talk: nothing that a client was told to be kept is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import httpx
import pytest

from tests.gateway.conftest import Open
from tests.gateway.load.stalled import KEPT_SECONDS, NAMED_SECONDS, QUICK, Stall, stall_storage
from tests.gateway.oidc import OidcProvider
from tests.gateway.test_access import bearer
from tests.gateway.test_sessions import Browser, with_browsers
from tests.gateway.world import GatewayWorld
from threadkeep.errors import StorageDeniedError, StorageUnavailableError
from threadkeep.identity import Owner
from threadkeep.process_state import PROBE_EVERY_SECONDS, PROBE_SECONDS, StorageProbe
from threadkeep_conformance.servers import PostgresServer

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
class TestCredentials:
    """The storage itself would wait ten minutes here: what ends the wait is the limit of credentials."""

    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
        monkeypatch.setenv("THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS", "600000")
        with PostgresServer() as server:
            yield server

    @pytest.fixture
    def gateway(self, server: PostgresServer, open_gateway: Open, provider: OidcProvider) -> GatewayWorld:
        return with_browsers(open_gateway, provider, server.url)

    async def test_a_request_with_a_cookie_gets_503(self, server: PostgresServer, gateway: GatewayWorld):
        """The session is known again when the storage answers."""
        async with Browser(gateway) as browser:
            await browser.login()
            gateway.app.state.gateway.sessions._known.clear()  # as it is two seconds later
            server.pause()
            try:
                refused = await browser.request("GET", "/api/memories")
            finally:
                server.resume()
            listed = await until_answered(lambda: browser.request("GET", "/api/memories"))

        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
        assert "retry-after" in refused.headers
        assert listed.status_code == 200

    async def test_a_request_with_an_api_key_gets_503(self, server: PostgresServer, gateway: GatewayWorld):
        keys = gateway.app.state.gateway.api_keys
        owner = Owner("ana", gateway.app.state.gateway.settings.issuers[0])
        secret, _ = await keys.create(owner, ["memory:read"])
        async with gateway.client(None) as client:
            server.pause()
            try:
                refused = await client.get("/memories", headers=bearer(secret))
            finally:
                server.resume()
            listed = await until_answered(lambda: client.get("/memories", headers=bearer(secret)))

        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
        assert listed.status_code == 200


async def until_answered(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Ask again until the storage answers."""
    async with asyncio.timeout(KEPT_SECONDS):
        while (answer := await ask()).status_code == httpx.codes.SERVICE_UNAVAILABLE:
            await asyncio.sleep(0.1)
    return answer


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
