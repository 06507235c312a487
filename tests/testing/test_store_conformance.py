"""Threadkeep's stores pass every check, the documentation tells what others do, and the suite notices what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from tests.conftest import missing
from threadkeep.testing import FrozenClock
from threadkeep_conformance import (
    CHECKS,
    CheckFailedError,
    OpenStore,
    Place,
    StoreConformance,
    UnsupportedError,
    run_store,
)
from threadkeep_conformance.__main__ import main
from threadkeep_conformance.check import Check
from threadkeep_conformance.running import Report
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer, RedisStackServer, Server
from threadkeep_conformance.stores import SUBJECTS, Subject, in_memory, threadkeep_place
from threadkeep_conformance.world import EXPIRING, TEXT, Sleep, World
from tools.conformance import PAGE, outcomes_of, report_text, with_report

SMALL = [check for check in CHECKS if not check.large]
RACE = "opening.together"
"""Whether a store that does not take care of it fails is a matter of luck."""

SERVERS: dict[type[Server], str] = {
    PostgresServer: "postgres_server",
    RedisServer: "redis_server",
    RedisStackServer: "redis_stack_server",
    MongoServer: "mongodb_server",
}


def moving(clock: FrozenClock) -> Sleep:
    async def pass_time(seconds: float) -> None:
        clock.advance(timedelta(seconds=seconds))

    return pass_time


def on_server(subject: Subject, request: pytest.FixtureRequest) -> str:
    """Return the URL of the server that *subject* needs."""
    if subject.server is None:
        return ""
    if lacking := subject.server.missing():
        missing(", ".join(lacking))
    return request.getfixturevalue(SERVERS[subject.server])


def ours() -> list[Any]:
    return [pytest.param(subject, id=subject.name) for subject in SUBJECTS if subject.name.startswith("threadkeep-")]


def stock() -> list[Any]:
    """LangGraph's own; those on servers take longer, and what they do changes with their releases only."""
    return [
        pytest.param(subject, id=subject.name, marks=pytest.mark.soak if subject.server else pytest.mark.slow)
        for subject in SUBJECTS
        if subject.name.startswith("langgraph-")
    ]


def only(name: str) -> Check:
    return next(check for check in CHECKS if check.id == name)


class TestOurStores:
    """They are full: nothing fails and nothing is skipped."""

    @pytest.mark.long
    @pytest.mark.slow
    @pytest.mark.parametrize("subject", ours())
    def test_every_check_passes(self, subject: Subject, request: pytest.FixtureRequest):
        clock = FrozenClock()
        place = subject.place(on_server(subject, request), clock)

        report = asyncio.run(run_store(subject.name, place, checks=SMALL, pass_time=moving(clock)))

        assert report.of("failed") == {}
        assert report.of("skipped") == {}
        assert len(report.of("passed")) == len(SMALL)

    @pytest.mark.soak
    @pytest.mark.parametrize("subject", [param for param in ours() if not param.values[0].too_slow])
    def test_every_large_check_passes(self, subject: Subject, request: pytest.FixtureRequest):
        large = [check for check in CHECKS if check.large]

        report = asyncio.run(run_store(subject.name, subject.place(on_server(subject, request), None), checks=large))

        assert report.of("failed") == {}
        assert len(report.of("passed")) == len(large)


class TestThePage:
    """``docs/store-conformance.md`` says what is so."""

    def test_it_has_every_check_with_its_sentence(self):
        """Where it does not, run `make conformance`."""
        page = PAGE.read_text(encoding="utf-8")

        for check in CHECKS:
            sentence, source = (text.replace("``", "`").replace("|", "\\|") for text in (check.sentence, check.source))
            assert f"| `{check.id}` | {sentence} | {source} |" in page

    def test_it_has_a_column_for_every_store(self):
        outcomes = outcomes_of(PAGE.read_text(encoding="utf-8"))

        assert list(outcomes) == [subject.name for subject in SUBJECTS]
        assert all(list(of_store) == [check.id for check in CHECKS] for of_store in outcomes.values())

    def test_ours_are_full_in_it(self):
        """But for what a stand-in of a server is too slow for."""
        outcomes = outcomes_of(PAGE.read_text(encoding="utf-8"))

        for subject in SUBJECTS:
            if subject.name.startswith("threadkeep-"):
                checks = SMALL if subject.too_slow else CHECKS
                assert {outcomes[subject.name][check.id] for check in checks} == {"passed"}

    @pytest.mark.parametrize("subject", stock())
    def test_it_says_what_the_stock_stores_do(self, subject: Subject, request: pytest.FixtureRequest):
        told = outcomes_of(PAGE.read_text(encoding="utf-8"))[subject.name]

        report = asyncio.run(run_store(subject.name, subject.place(on_server(subject, request), None), checks=SMALL))

        found = {result.check.id: result.outcome for result in report.results if result.check.id != RACE}
        assert found == {check.id: told[check.id] for check in SMALL if check.id != RACE}

    def test_writing_it_replaces_the_report_only(self):
        page = PAGE.read_text(encoding="utf-8")
        report = Report("threadkeep-memory", ())

        written = with_report(with_report(page, report_text([report])), report_text([report]))

        assert written.partition("<!--")[0] == page.partition("<!--")[0]
        assert written.count("<!--") == 2


class TestAStoreOfYourOwn(StoreConformance):
    """The suite as tests: here of our store in this process, whose clock can be moved."""

    @pytest.fixture(scope="class")
    @classmethod
    def clock(cls) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture(scope="class")
    @classmethod
    def place(cls, clock: FrozenClock) -> Place:
        return threadkeep_place(in_memory, clock=clock)

    @pytest.fixture(scope="class")
    @classmethod
    def pass_time(cls, clock: FrozenClock) -> Sleep:
        return moving(clock)


class TestRunning:
    async def test_a_store_that_cannot_is_skipped(self):
        """With its own words; what it can do is checked all the same."""

        def without_index(*, index: Any = None, ttl: Any = None) -> AbstractAsyncContextManager[Any]:
            if index:
                raise UnsupportedError("no model at hand")
            return opened(InMemoryStore())

        checks = [only("items.json"), only("meaning.best-first"), only("expiry.default")]

        report = await run_store("mine", place_of(without_index), checks=checks)

        assert report.of("passed") == {"items.json": ""}
        assert report.of("skipped")["meaning.best-first"] == "no model at hand"
        assert "supports_ttl" in report.of("skipped")["expiry.default"]

    async def test_a_store_that_cannot_be_opened_is_skipped(self):
        def broken(*, index: Any = None, ttl: Any = None) -> AbstractAsyncContextManager[Any]:
            raise OSError("no route to host")

        report = await run_store("mine", place_of(broken), checks=SMALL)

        assert set(report.of("skipped").values()) == {"it cannot be opened: OSError: no route to host"}
        assert len(report.results) == len(SMALL)

    async def test_a_place_that_there_is_not_skips_everything(self):
        @asynccontextmanager
        async def nowhere() -> AsyncGenerator[OpenStore]:
            raise UnsupportedError("no disk")
            yield

        report = await run_store("mine", nowhere, checks=SMALL)

        assert set(report.of("skipped").values()) == {"no disk"}

    async def test_what_a_check_raises_is_its_failure(self):
        """An error of the store's, a hanging call, and what the check itself found."""

        async def raises(_: World) -> None:
            raise KeyError("lost")

        async def finds(_: World) -> None:
            raise CheckFailedError("two, not one")

        async def cannot(_: World) -> None:
            raise UnsupportedError("not here")

        base = only("items.json")
        checks = [
            replace(base, id="raises", body=raises),
            replace(base, id="finds", body=finds),
            replace(base, id="cannot", body=cannot),
        ]

        report = await run_store("mine", place_of(lambda **_: opened(InMemoryStore())), checks=checks)

        assert report.of("failed") == {"raises": "KeyError: 'lost'", "finds": "two, not one"}
        assert report.of("skipped") == {"cannot": "not here"}

    async def test_a_call_that_hangs_is_a_failure(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("threadkeep_conformance.running.CHECK_SECONDS", 0.05)

        async def hangs(_: World) -> None:
            await asyncio.Event().wait()

        checks = [replace(only("items.json"), id="hangs", body=hangs)]

        report = await run_store("mine", place_of(lambda **_: opened(InMemoryStore())), checks=checks)

        assert report.of("failed") == {"hangs": "TimeoutError"}

    def test_ids_are_given_once(self):
        ids = [check.id for check in CHECKS]

        assert len(set(ids)) == len(ids)
        assert all(check.sentence.endswith((".", "?")) and check.source for check in CHECKS)
        assert {check.options for check in CHECKS} >= {TEXT, EXPIRING}


class TestTheCommand:
    @pytest.mark.slow
    def test_json_counts_every_store(self, capsys: pytest.CaptureFixture[str]):
        code = main(["--json", "--store", "langgraph-memory"])

        (store,) = json.loads(capsys.readouterr().out)["stores"]
        assert code == 0
        assert store["name"] == "langgraph-memory"
        assert store["failed"] == len(store["failures"]) > 10
        assert "items.copy-returned" in store["failures"]
        assert store["skipped"] == len(store["skips"])
        assert store["passed"] + store["failed"] + store["skipped"] == len(SMALL)

    def test_for_people_it_says_what_failed_and_why(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("threadkeep_conformance.__main__.CHECKS", [only("items.json"), only("items.copy-taken")])

        main(["--store", "langgraph-memory", "threadkeep-memory"])

        shown = capsys.readouterr().out
        assert "threadkeep-memory       2       0        0" in shown
        assert "items.copy-taken: the value: found {'tags': ['a', 'b']}, wanted {'tags': ['a']}" in shown

    def test_one_of_ours_that_fails_is_an_error(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        async def never(_: World) -> None:
            raise CheckFailedError("never so")

        monkeypatch.setattr("threadkeep_conformance.__main__.CHECKS", [replace(only("items.json"), body=never)])

        assert main(["--store", "threadkeep-memory"]) == 1

    def test_a_server_that_is_missing_is_a_reason(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(RedisStackServer, "needs", ("no_such_module",))

        main(["--json", "--store", "langgraph-redis"])

        (store,) = json.loads(capsys.readouterr().out)["stores"]
        assert (store["passed"], store["failed"], store["skipped"]) == (0, 0, len(SMALL))
        assert set(store["skips"].values()) == {"no_such_module, from which its server is started, is not installed"}


@asynccontextmanager
async def opened(store: Any) -> AsyncGenerator[Any]:
    yield store


def place_of(open_store: Callable[..., AbstractAsyncContextManager[Any]]) -> Place:
    @asynccontextmanager
    async def place() -> AsyncGenerator[Any]:
        yield open_store

    return place
