"""The checks as tests to inherit."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from threadkeep_conformance.catalogue import CHECKS
from threadkeep_conformance.check import Check
from threadkeep_conformance.running import Report, run_store
from threadkeep_conformance.world import Place, Sleep

_SMALL: Final = [check for check in CHECKS if not check.large]


class StoreConformance:
    """One test for each check.

    A store's test file says where its places are::

        class TestMyStore(StoreConformance):
            @pytest.fixture(scope="class")
            @classmethod
            def place(cls) -> Place:
                @asynccontextmanager
                async def place():                       # somewhere empty
                    async with an_empty_database() as url:

                        @asynccontextmanager
                        async def open_store(*, index=None, ttl=None):
                            async with MyStore.connect(url, index=index, ttl=ttl) as store:
                                yield store

                        yield open_store

                return place

    All checks run once, before the first test of the class, on stores that they share. A store
    that cannot do something raises ``UnsupportedError`` when it is asked to be opened so; the tests
    of it are then skipped.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Place:
        """Replaced by the store's own."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def pass_time(cls) -> Sleep:
        """How seconds pass; replaced where the store has a clock of its own."""
        return asyncio.sleep

    @pytest.fixture(scope="class")
    @classmethod
    def report(cls, place: Place, pass_time: Sleep) -> Report:
        """What came out of all checks."""
        return asyncio.run(run_store(cls.__name__, place, checks=_SMALL, pass_time=pass_time))

    @pytest.mark.parametrize("check", _SMALL, ids=[check.id for check in _SMALL])
    def test_store(self, report: Report, check: Check) -> None:
        """The store does what the check says."""
        (result,) = (result for result in report.results if result.check is check)
        if result.outcome == "skipped":
            pytest.skip(result.reason)
        if result.outcome == "failed":
            pytest.fail(f"{check.sentence}\n{result.reason}\nSource: {check.source}", pytrace=False)
