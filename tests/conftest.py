"""What holds for every test: a world of its own, nothing left behind, and nothing skipped in silence."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import itertools
import json
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

PREFIXES: Final = (
    "THREADKEEP_",
    "AWS_",
    "ENABLE_",
    "LANGGRAPH_",
    "LANGSMITH_",
    "LANGCHAIN_",
    "EMBEDDINGS_",
    "OPENAI_",
    "ANTHROPIC_",
)
OTHERS: Final = (
    "REDIS_URL",
    "POSTGRES_DSN",
    "MONGODB_URI",
    "FACT_EXTRACTION_MODEL",
    "MAX_CONTEXT_TOKENS",
    "MIN_MESSAGES_TO_KEEP",
    "GITHUB_PERSONAL_ACCESS_TOKEN",
    "GITLAB_MCP_TOKEN",
    "SLACK_MCP_TOKEN",
    "SPLUNK_MCP_URL",
    "SPLUNK_MCP_TOKEN",
    "NO_COLOR",
    "FORCE_COLOR",
    "SSL_CERT_FILE",
)
KEPT: Final = "THREADKEEP_TEST_"
"""Says where a test finds a server; a setting never begins like this."""

SECONDS_TO_END: Final = 5.0
"""How long a thread that was told to end may take before it counts as left behind."""

BUSY_MS: Final = "10000"
"""How long a turn waits for its memory in tests that do not say: what they are about shows on a busy machine, too."""

IN_MEMORY: Final = Path("/dev/shm")
"""Linux's file system in memory."""

BYTES_OF_A_RUN: Final = 2 * 1024**3

pytest_plugins = ["tests.servers"]

hypothesis.settings.register_profile("threadkeep", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.register_profile("fast", hypothesis.settings.get_profile("threadkeep"), max_examples=25)
hypothesis.settings.load_profile("threadkeep")

_WORLDS: Final = itertools.count()

PROGRAMS: Final = pytest.StashKey[str]()
"""The address of the process that programs of tests fork from."""

TIME_LIMIT: Final = pytest.StashKey[Any]()
"""The settings that pytest-timeout has for the test."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep what tests and their servers write in memory, where it is written at once; some hundred megabytes.

    A worker takes the forkserver of its run.
    """
    if "TMPDIR" not in os.environ and _is_usable(IN_MEMORY):
        os.environ["TMPDIR"] = str(IN_MEMORY)
        tempfile.tempdir = None
    if (address := getattr(config, "workerinput", {}).get("forkserver")) is not None:
        from tests.processes import use_forkserver

        use_forkserver(address)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Fork the workers from one process that has imported the tests, and their programs from another.

    To import what tests need takes a worker ten seconds, and a program three.
    """
    if "not slow" in config.option.markexpr:
        return
    from tests.processes import forking_command, start_forkserver

    config.stash[PROGRAMS] = start_forkserver()
    os.environ["TESTS_TO_IMPORT"] = json.dumps(["-m", config.option.markexpr, *config.args])
    worker = shlex.join(forking_command(start_forkserver(["tests.imported"])))
    del os.environ["TESTS_TO_IMPORT"]
    for spec in specs:
        spec.python = worker


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker which process its programs fork from."""
    node.workerinput["forkserver"] = node.config.stash.get(PROGRAMS, None)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Count the failures of a test in its worker, which runs it again by itself.

    A worker of pytest-rerunfailures would tell the process that it belongs to, byte by byte, of every test before it
    begins: that takes as long as a short test. It is for tests that end their worker; these fail at once.
    """
    config: Any = session.config
    if hasattr(config, "workerinput") and hasattr(config, "failures_db"):
        from pytest_rerunfailures import StatusDB

        config.failures_db.sock.close()
        config.failures_db = StatusDB()


def _is_usable(folder: Path) -> bool:
    if not os.access(folder, os.W_OK | os.X_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free > BYTES_OF_A_RUN


@pytest.fixture(autouse=True)
def world_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's settings and data: no variable is set, and the user's folders are new, made when used."""
    world = tmp_path_factory.getbasetemp() / f"world{next(_WORLDS)}"
    for name in list(os.environ):
        if (name.startswith(PREFIXES) and not name.startswith(KEPT)) or name in OTHERS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("THREADKEEP_RECALL_TIMEOUT_MS", BUSY_MS)
    # To read the certificates of the world takes 20 ms of every HTTP client, and no server of a test has one of these.
    monkeypatch.setenv("SSL_CERT_DIR", str(world / "certificates"))
    for kind in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(world / kind.lower()))
    if sys.platform == "darwin":  # its user folders follow HOME
        monkeypatch.setenv("HOME", str(world / "home"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a folder of the test, which also gets the data, and need no model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
    return tmp_path


@pytest.fixture(scope="session")
def exporter() -> Any:
    """Collect every span of this process from here on: OpenTelemetry's provider can be set once."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


@pytest.fixture
def spans(exporter: Any) -> Any:
    """Return the spans of this test."""
    exporter.clear()
    return exporter


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a test that leaves a thread running or a file of a test's folder open."""
    folder = tmp_path_factory.getbasetemp()
    threads, files = set(threading.enumerate()), open_files_below(folder)
    yield
    left = threads_left(threads)
    assert not left, f"threads still run after the test: {left}; close what was opened"
    still_open = open_files_below(folder) - files
    assert not still_open, f"still open after the test: {sorted(still_open)}; close what was opened"


def threads_left(before: set[threading.Thread]) -> list[str]:
    """Return the names of the threads, other than daemons, that were started since and do not end."""
    started = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in started:
        thread.join(SECONDS_TO_END)
    return [thread.name for thread in started if thread.is_alive()]


def open_files_below(folder: Path) -> set[str]:
    """Return the open files of this process that are below *folder*; none where the system does not tell.

    An SQLite connection that nobody closed shows here on every Python; the interpreter itself warns from 3.13 on.
    """
    if sys.platform != "linux":
        return set()
    below = f"{folder}{os.sep}"
    found: set[str] = set()
    with os.scandir("/proc/self/fd") as descriptors:
        for descriptor in descriptors:
            try:
                target = os.readlink(descriptor)  # noqa: PTH115 - a Path of each takes longer than many a test
            except OSError:  # closed since
                continue
            if target.startswith(below):
                found.add(target.removeprefix(below))
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect no garbage while tests are imported: there is little, and it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of every later garbage collection, and collect seldom.

    What is garbage by then is little, and looking for it takes a second of each worker. Later on, Python's own
    thresholds would take a tenth of the processor time of all tests. What modules hold when the process exits, such as
    the connections that LangChain caches, ends with it.
    """
    gc.freeze()
    gc.set_threshold(2_000, 20, 25)
    atexit.register(gc.freeze)


_SERVED = frozenset({"postgres", "redis", "mongodb", "servers"})
"""What stands in a file's name, or in the id of its parameters, where a test asks for a server while it runs."""


_AT_LENGTH = frozenset({"agents", "cli", "evals", "extractors", "moving", "providers", "vectors"})
"""Folders of what is beside memory and SQLite, or a door to them; `make test-fast` does not even import them."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders of which nothing would be run."""
    only_quick = "not slow" in str(config.getoption("markexpr", ""))
    return True if only_quick and collection_path.name in _AT_LENGTH and collection_path.is_dir() else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark what needs a server, or has many long tests, as slow: `make test-fast` is memory and SQLite."""
    for item in items:
        served = any(name.endswith("_server") for name in getattr(item, "fixturenames", ()))
        params = getattr(getattr(item, "callspec", None), "id", "")
        names_one = not _SERVED.isdisjoint((*item.path.stem.split("_"), *params.split("-")))
        if served or names_one or item.path.parent.name in _AT_LENGTH:
            item.add_marker(pytest.mark.slow)
    yield  # other plugins deselect and sort
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        browsed = [item for item in items if item.path.parent.name == "web"]
        long = [item for item in items if item.get_closest_marker("long") and item.path.parent.name != "web"]
        others = {*items} - {*browsed, *long}
        items[:] = long_first(browsed, long, [item for item in items if item in others], workers=workers)


def long_first(browsed: list[Any], long: list[Any], rest: list[Any], *, workers: int) -> list[Any]:
    """Order tests so that each worker begins with long ones: other workers would wait for one that is among the last.

    The first worker begins with those of a browser, which share it. xdist gives each worker an equal part of the list.
    """
    left, waiting, ordered = len(browsed) + len(long) + len(rest), [*reversed(rest)], list[Any]()
    for number in range(workers):
        part = left // (workers - number)
        first = long[number - 1 :: workers - 1] if number else browsed
        ordered += first
        ordered += [waiting.pop() for _ in range(min(part - len(first), len(waiting)))]
        left -= part
    return [*ordered, *reversed(waiting)]


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Keep the time limit of the test for `limit_time`."""
    item.stash[TIME_LIMIT] = settings


def limit_time(item: pytest.Item) -> None:
    """Begin the time limit of the test anew.

    pytest-timeout begins it once and ends it with the first failure: neither the teardown of a test that failed nor its
    second run would have one, and a run that hangs there never ends.
    """
    if (settings := item.stash.get(TIME_LIMIT, None)) is not None:
        item.ihook.pytest_timeout_cancel_timer(item=item)
        item.ihook.pytest_timeout_set_timer(item=item, settings=settings)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Limit the time of what ends the test, also after a failure."""
    limit_time(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Limit the time of a second run, too. Skip what this machine cannot run, and say so.

    Where ``CI`` is set, a missing model is a failure.
    """
    limit_time(item)
    if item.get_closest_marker("linux") and sys.platform != "linux":
        pytest.skip("needs Linux")
    if item.get_closest_marker("model") and not local_model_is_there():
        missing("the local embedding model; run `make setup`")


def missing(what: str) -> None:
    """Skip the test for want of *what* on a laptop, and fail it in continuous integration."""
    if "CI" in os.environ:
        pytest.fail(f"missing here: {what}", pytrace=False)
    pytest.skip(f"missing here: {what}")


def local_model_is_there() -> bool:
    """Return whether the embedding model and what runs it are installed."""
    if not all(importlib.util.find_spec(name) for name in ("onnxruntime", "tokenizers", "threadkeep_minilm")):
        return False
    from threadkeep_minilm import MODEL_PATH, TOKENIZER_PATH

    return MODEL_PATH.is_file() and TOKENIZER_PATH.is_file()
