"""Workers are killed at random moments, over and over: no recorded turn is lost, and none counts twice.

Two workers at a time share what a third process records; of four kills one falls at a random moment, and three
while the worker extracts from a turn. Another worker takes over. The children fork from this process, which has
everything imported and no thread running.
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self

import threadkeep
from tests.invariants.sigkill import statement
from threadkeep.capture.extractors import Extraction
from threadkeep.capture.extractors.local import LocalExtractor
from threadkeep.capture.models import Turn
from threadkeep.clock import SystemClock
from threadkeep.container import Container
from threadkeep.memories.models import Memory
from threadkeep.registry import create_storage
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder
from threadkeep_conformance.servers import _die_with_parent

OWNERS: Final = ("ana.maria@example.org", "bob", "carol/ops")
THREADS: Final = 8
TURNS_A_KILL: Final = 4
LONGEST_LIFE_SECONDS: Final = 0.1
LONGEST_THOUGHT_SECONDS: Final = 0.03
LONGEST_SILENCE_SECONDS: Final = 0.3
"""After this time without a turn in hand, more turns are recorded: the other worker took the last ones."""
PATIENCE_SECONDS: Final = 60.0
KILLED_LEASE_SECONDS: Final = 0.2
KEPT_LEASE_SECONDS: Final = 30.0
"""The last process is not killed, and may be slow: with a short lease its workers would take turns from each other."""
SETTINGS: Final = {
    "capture_tries": 1_000,  # the same turn is in the hands of many that die
    "postgres_pool_size": 3,
}


class Thinking:
    """Extracts as the local one does, after a while; says over a pipe when it begins and when it is done."""

    name = "thinking"
    uses_known = False

    def __init__(self, writing: int, seed: int) -> None:
        self._writing = writing
        self._rng = random.Random(seed)

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        os.write(self._writing, b"+")
        await asyncio.sleep(self._rng.uniform(0, LONGEST_THOUGHT_SECONDS))
        os.write(self._writing, b"-")
        return await LocalExtractor().extract(turn, known)


def run(n: int, *, url: str | None = None, seed: int = 1) -> dict[str, Any]:
    """Kill *n* workers on the storage at *url* (``None``: a new SQLite file) and count what is lost and doubled.

    Returns:
        ``turns`` that were recorded, ``caught``: kills of a worker that had a turn in hand (at least three of four),
        ``lost``, ``doubled``.
    """
    with tempfile.TemporaryDirectory(prefix="threadkeep-invariants-") as folder:
        _import_everything(Path(folder) / "warm.sqlite3")
        return _run(n, url or f"sqlite:///{folder}/memory.sqlite3", random.Random(seed))


def _run(n: int, url: str, rng: random.Random) -> dict[str, Any]:
    with _Children() as children:
        recorded, caught = _kill(n, url, rng, children)
    kept, sources = _kept(url)
    lost = [turn for turn in recorded if not kept[statement(turn)]]
    doubled = [text for text in kept if kept[text] > 1 or sources[text] > 1]
    return {"n": n, "turns": len(recorded), "caught": caught, "lost": len(lost), "doubled": len(doubled)}


def _kill(n: int, url: str, rng: random.Random, children: _Children) -> tuple[list[int], int]:
    """Kill *n* workers; return which turns were recorded meanwhile, and how many had one in hand."""
    feeder = children.born(lambda reading, writing: _feed(url, reading, writing))
    feeder.wait_for(b"ready\n")
    workers: list[_Child] = []
    caught = 0
    for kill in range(n):
        feeder.say(b"%d\n" % TURNS_A_KILL)
        while len(workers) < 2:
            workers.append(children.born(lambda _reading, writing, kill=kill: _work(url, writing, seed=kill)))
            workers[-1].wait_for(b"ready\n")
        if kill % 4:
            _stop_with_turn_in_hand(workers[0], feeder, rng)
        else:
            time.sleep(rng.uniform(0, LONGEST_LIFE_SECONDS))
        said = workers.pop(0).killed()
        caught += _in_hand(said)
    for worker in workers:
        worker.killed()
    feeder.say(b"end\n")
    return [int(line) for line in feeder.ended().split()], caught


def _stop_with_turn_in_hand(worker: _Child, feeder: _Child, rng: random.Random) -> None:
    """Stop *worker* while it extracts from a turn, however slow the machine is; record more turns until it does."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if not worker.hear_until(_in_hand, within=LONGEST_SILENCE_SECONDS):
            feeder.say(b"%d\n" % TURNS_A_KILL)
            continue
        time.sleep(rng.uniform(0, LONGEST_THOUGHT_SECONDS / 2))
        if _in_hand(worker.stopped()):
            return
        worker.resume()
    msg = "the worker never had a turn in hand"
    raise TimeoutError(msg)


def _in_hand(said: bytes) -> bool:
    """Return whether a worker that has said this extracts from a turn now."""
    return said.count(b"+") > said.count(b"-")


class _Children:
    """Forked processes, none of which outlives this, whatever becomes of the run."""

    def __init__(self) -> None:
        self._all: list[_Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._all:
            child.abandoned()

    def born(self, live: Callable[[int, int], object]) -> _Child:
        """Fork one that lives by *live*."""
        self._all = [child for child in self._all if not child.over]
        self._all.append(_Child(live))
        return self._all[-1]


class _Child:
    """A forked process with a pipe each way."""

    def __init__(self, live: Callable[[int, int], object]) -> None:
        hearing, speaking = os.pipe()
        reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _die_with_parent()
            os.close(speaking)
            os.close(reading)
            try:
                live(hearing, writing)
            except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as its parent
                traceback.print_exc()
            os._exit(1)
        os.close(hearing)
        os.close(writing)
        self._speaking, self._reading = speaking, reading
        self._said = b""
        self.over = False

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._pid

    def say(self, words: bytes) -> None:
        """Send *words*."""
        os.write(self._speaking, words)

    def wait_for(self, words: bytes) -> None:
        """Wait until it has said *words*; what else it said is kept."""
        if not self.hear(words, within=PATIENCE_SECONDS):
            msg = f"a child said {self._said!r} and not {words!r}"
            raise TimeoutError(msg)
        self._said = self._said.replace(words, b"")

    def hear(self, words: bytes, *, within: float) -> bool:
        """Wait so many seconds at most for *words*; return whether it has said them."""
        return self.hear_until(lambda said: words in said, within=within)

    def hear_until(self, enough: Callable[[bytes], bool], *, within: float) -> bool:
        """Read until all that was said is *enough*; return ``False`` after so many seconds of silence."""
        while not enough(self._said):
            ready, _, _ = select.select([self._reading], [], [], within)
            heard = os.read(self._reading, 4096) if ready else b""
            if not heard:
                return False
            self._said += heard
        return True

    def stopped(self) -> bytes:
        """Stop it until it is resumed or killed; return what it had said."""
        os.kill(self._pid, signal.SIGSTOP)
        os.waitpid(self._pid, os.WUNTRACED)
        while select.select([self._reading], [], [], 0)[0]:
            heard = os.read(self._reading, 4096)
            if not heard:
                break
            self._said += heard
        return self._said

    def resume(self) -> None:
        """Let it go on after it was stopped."""
        os.kill(self._pid, signal.SIGCONT)

    def killed(self) -> bytes:
        """Kill it; return what it had said."""
        os.kill(self._pid, signal.SIGKILL)
        return self.ended()

    def ended(self) -> bytes:
        """Wait for its end; return what it had said."""
        with os.fdopen(self._reading, "rb", closefd=False) as reading:
            said = self._said + reading.read()
        os.waitpid(self._pid, 0)
        os.close(self._speaking)
        os.close(self._reading)
        self.over = True
        return said

    def abandoned(self) -> None:
        """Kill it, if it is not over."""
        if self.over:
            return
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._speaking)
        os.close(self._reading)
        self.over = True


def _feed(url: str, reading: int, writing: int) -> NoReturn:
    """Record as many turns as asked, again and again; name each that was acknowledged."""
    turn = 0
    with _memory(url, workers=0) as tk, os.fdopen(reading) as asked:
        tk.sync.ready()
        os.write(writing, b"ready\n")
        for line in asked:
            if line == "end\n":
                break
            for _ in range(int(line)):
                said = [{"role": "user", "content": statement(turn), "id": f"m{turn}"}]
                thread = f"thread-{turn // len(OWNERS) % THREADS}"
                tk.sync.capture(said, owner=OWNERS[turn % len(OWNERS)], thread_id=thread)
                os.write(writing, b"%d\n" % turn)
                turn += 1
    os._exit(0)


def _work(url: str, writing: int, *, seed: int) -> None:
    """Learn from turns until the end."""
    tk = _memory(url, workers=2, extractor=Thinking(writing, seed))
    if seed % 4:  # every fourth is killed while it connects, perhaps
        tk.sync.ready()
    os.write(writing, b"ready\n")
    tk.sync.ready()
    signal.pause()


def _kept(url: str) -> tuple[Counter[str], Counter[str]]:
    """Learn what is left, and count the statements in memories, and the sources of each."""
    kept: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    with _memory(url, workers=4, lease_seconds=KEPT_LEASE_SECONDS) as tk:
        while any(turn.state != "dead" for turn in tk.sync.queue.list()):
            tk.sync.drain()
        for owner in OWNERS:
            offset = 0
            while page := tk.sync.memories.list(owner=owner, kind="semantic", limit=500, offset=offset):
                offset += len(page)
                for memory in page:
                    kept[memory.text] += 1
                    sources[memory.text] += len(memory.sources)
    return kept, sources


def _import_everything(path: Path) -> None:
    """Learn from one turn here and close again, so that children need not spend their lives importing."""
    with _memory(f"sqlite:///{path}", workers=1) as tk:
        tk.sync.capture([{"role": "user", "content": statement(0)}], owner=OWNERS[0], thread_id="first", wait=True)


def _memory(
    url: str, *, workers: int, extractor: Thinking | None = None, lease_seconds: float = KILLED_LEASE_SECONDS
) -> threadkeep.Threadkeep:
    from threadkeep.registry import resolve_settings

    chosen = {**SETTINGS, "capture_workers": workers, "capture_lease_seconds": lease_seconds}
    settings = resolve_settings(url, Settings().model_copy(update=chosen))
    clock = SystemClock()
    return threadkeep.Threadkeep(
        Container(settings, create_storage(settings, clock), HashingEmbedder(), clock, extractor=extractor)
    )
