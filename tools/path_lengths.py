"""Count the modules and calls of the package that each main path passes, and check them against the limits.

``python -m tools.path_lengths`` prints a table; ``--check`` fails when a path is longer than its limit, ``--json``
prints one object, ``--list NAME`` prints every call of one path in order, and ``--functions NAME`` its calls by module
and function, the most first. Only public names are used, so the
figures stay comparable while the inside changes. Every Python call into the package counts, on every thread, between
the beginning and the end of one operation. An operation begins once the work that the one before left to the
background is done. Work of its own that it does not wait for may still fall into it, so ``--check`` measures a path
that is too long again, and takes the shortest. A time limit that looks at the clock while the path waits does not
count: how often it looks says how fast the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

LIMITS: Final[dict[str, tuple[int, int]]] = {
    "agent turn": (56, 1300),
    "learn one sentence": (55, 1300),
    "warm recall": (37, 292),
    "list memories": (14, 72),
    "forget a memory": (28, 434),
    "store put": (16, 110),
    "warm store search": (25, 171),
    "store get": (11, 39),
    "checkpoint put": (15, 91),
    "checkpoint get": (13, 93),
    "command: memories list": (29, 330),
}
"""At most so many modules and calls, by path."""
_TRIES: Final = 6
_QUIET_SECONDS: Final = 0.1
_LOOKS: Final = 100
_TIMED: Final = frozenset({"AnswerTimeout._look"})
"""Functions that a timer calls, again and again while the path waits."""


@dataclass
class Recorder:
    """Records the package's calls on all threads while a path runs."""

    calls: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    paths: dict[str, list[tuple[str, int, str]]] = field(default_factory=dict[str, list[tuple[str, int, str]]])
    package: str = "\0"
    recording: bool = False
    seen: int = 0

    def start(self) -> None:
        """Watch this thread and every thread that starts from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def path(self, name: str) -> Iterator[None]:
        """Record the calls of the block under *name*."""
        self.calls.clear()
        self.recording = True
        try:
            yield
        finally:
            self.recording = False
            self.paths[name] = list(self.calls)

    @asynccontextmanager
    async def quiet_path(self, name: str) -> AsyncIterator[None]:
        """Record the calls of the block under *name*, once no thread has called the package for a while."""
        for _ in range(_LOOKS):
            before = self.seen
            await asyncio.sleep(_QUIET_SECONDS)
            if self.seen == before:
                break
        with self.path(name):
            yield

    def lengths(self) -> dict[str, dict[str, int]]:
        """Return the number of modules, functions and calls of each path."""
        return {
            name: {
                "modules": len({module for module, _, _ in calls}),
                "functions": len(set(calls)),
                "calls": len(calls),
            }
            for name, calls in self.paths.items()
        }

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.package):
            return
        self.seen += 1
        if self.recording and not _is_timed(frame):
            self.calls.append((code.co_filename[len(self.package) :], code.co_firstlineno, code.co_qualname))


def _is_timed(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_qualname in _TIMED:
            return True
        frame = frame.f_back
    return False


async def run_operations(recorder: Recorder, folder: str) -> None:
    """Run each operation of the library once it is warm, on SQLite in *folder*."""
    import threadkeep

    recorder.package = str(Path(threadkeep.__file__).parent) + os.sep
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langgraph.checkpoint.base.id import uuid6

    async with threadkeep.open(f"sqlite:///{folder}/m.db") as tk:
        model = FakeListChatModel(responses=["All right."])
        agent: Any = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        async def turn(text: str, thread_id: str) -> None:
            config = tk.config(user_id="ana", thread_id=thread_id)
            await agent.ainvoke({"messages": [{"role": "user", "content": text}]}, config, durability="sync")

        for number in range(3):
            await turn("I live in Lisbon and we deploy with Argo CD.", f"t{number}")
        await tk.drain()
        await turn("Where do I live?", "t9")
        await tk.drain()
        async with recorder.quiet_path("agent turn"):
            await turn("My sister Maria works at Acme in Porto.", "t9")
        await tk.drain()
        said = [{"role": "user", "content": "I am allergic to peanuts."}, {"role": "assistant", "content": "Noted."}]
        async with recorder.quiet_path("learn one sentence"):
            await tk.capture(said, owner="ana", thread_id="z", wait=True)
        await tk.recall("Where does my sister work?", owner="ana")
        async with recorder.quiet_path("warm recall"):
            await tk.recall("Where do I live?", owner="ana")
        async with recorder.quiet_path("list memories"):
            memories = await tk.memories.list(owner="ana")
        async with recorder.quiet_path("forget a memory"):
            await tk.memories.forget(memories[0].memory_id, owner="ana")
        store = tk.store
        await store.aput(("docs", "x"), "k", {"text": "hello world"})
        async with recorder.quiet_path("store put"):
            await store.aput(("docs", "x"), "k2", {"text": "hello there world"})
        await store.asearch(("docs",), query="hello")
        async with recorder.quiet_path("warm store search"):
            await store.asearch(("docs",), query="hello")
        async with recorder.quiet_path("store get"):
            await store.aget(("docs", "x"), "k2")
        saver: Any = tk.checkpointer
        config = tk.config(user_id="ana", thread_id="t9")
        newest = await saver.aget_tuple(config)
        checkpoint = {**newest.checkpoint, "id": str(uuid6(clock_seq=0))}
        async with recorder.quiet_path("checkpoint put"):
            await saver.aput(newest.config, checkpoint, {"source": "update", "step": 9, "parents": {}}, {})
        async with recorder.quiet_path("checkpoint get"):
            await saver.aget_tuple(config)


def run_command(recorder: Recorder, folder: str) -> None:
    """Run ``threadkeep memories list`` in this process on the same database."""
    from threadkeep.cli.main import main

    sys.argv = ["threadkeep", "memories", "list", "--user", "ana", "--json"]
    os.environ.update(LANGGRAPH_STORE_TYPE="sqlite", LANGGRAPH_STORE_SQLITE_PATH=f"{folder}/m.db")
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):  # noqa: SIM117 - the path is the innermost
        with recorder.path("command: memories list"), suppress(SystemExit):
            main()


def by_function(calls: Sequence[tuple[str, int, str]]) -> list[str]:
    """Return a line for each module that *calls* pass: how many of them, and its functions, the most called first."""
    modules: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for module, _, name in calls:
        modules[module][name.replace("<locals>.", "")] += 1
    rows = sorted(modules.items(), key=lambda row: (-row[1].total(), row[0]))
    return [
        f"{functions.total():5} {module}: "
        + ", ".join(f"{name} {count}" if count > 1 else name for name, count in functions.most_common())
        for module, functions in rows
    ]


def too_long(lengths: dict[str, dict[str, int]]) -> list[str]:
    """Return one sentence for each path that is longer than its limit, or is not measured."""
    return [
        f"{name}: {lengths.get(name, {}).get(unit, 'no')} {unit}; the limit is {limit}."
        for name, limits in LIMITS.items()
        for unit, limit in zip(("modules", "calls"), limits, strict=True)
        if not 0 < lengths.get(name, {}).get(unit, 0) <= limit
    ]


def measure() -> Recorder:
    """Run every path in a folder of its own, with no settings but the defaults."""
    recorder = Recorder()
    recorder.start()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(dict.fromkeys(("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME"), folder))
        asyncio.run(run_operations(recorder, folder))
        run_command(recorder, folder)
    sys.setprofile(None)
    return recorder


def shortest(one: dict[str, dict[str, int]], other: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the smaller figures of two measurements."""
    return {
        name: {unit: min(figure, other.get(name, {}).get(unit, figure)) for unit, figure in row.items()}
        for name, row in one.items()
    }


def main() -> int:
    """Print the lengths as the options say, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when a path is longer than its limit")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--list", metavar="NAME", help="print every call of one path, in order")
    parser.add_argument("--functions", metavar="NAME", help="print the calls of one path by module and function")
    arguments = parser.parse_args()
    recorder = measure()
    lengths = recorder.lengths()
    for _ in range(_TRIES - 1 if arguments.check else 0):
        if not too_long(lengths):
            break
        lengths = shortest(lengths, measure().lengths())
    if arguments.list:
        print("\n".join(f"{module}:{line} {name}" for module, line, name in recorder.paths[arguments.list]))
    elif arguments.functions:
        print("\n".join(by_function(recorder.paths[arguments.functions])))
    elif arguments.json:
        print(json.dumps(lengths))
    else:
        print(f"{'path':26} {'modules':>8} {'functions':>10} {'calls':>7}")
        for name, row in lengths.items():
            print(f"{name:26} {row['modules']:8} {row['functions']:10} {row['calls']:7}")
    failures = too_long(lengths) if arguments.check else []
    print("\n".join(failures), file=sys.stderr, end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
