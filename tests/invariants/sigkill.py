"""A process that chats is killed at random moments: no acknowledged turn is lost, no memory is there twice.

A turn is acknowledged when its run returns: it is in its thread. It is learnt from as well, unless its receipt says
that it was not recorded yet: on a busy machine a run returns before that.

After each kill another process looks twice at all memories: what was seen once is seen again.

The children fork from this process, which has everything imported and no thread running.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from typing import Any, Final, NoReturn

import threadkeep
from threadkeep.registry import resolve_settings
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder, ScriptedModel

USER: Final = "ana.maria@example.org"
MOST_TURNS: Final = 3
LONGEST_WORK_SECONDS: Final = 0.1
LOOKS: Final = 2
"""How often all memories are looked at after each kill."""
LONGEST_SILENCE_SECONDS: Final = 60.0
RECORDED: Final = (b"queued", b"duplicate", b"done")
"""What the receipt of a turn says that is learnt from whatever becomes of the process."""
TRIES: Final = 1_000
"""The same turn may be in the hands of many that are killed: after five it would be kept aside, and not learnt from."""


def run(n: int, *, url: str | None = None, seed: int = 1) -> dict[str, Any]:
    """Kill *n* children on the storage at *url* (``None``: a new SQLite file) and count what the next ones miss.

    Returns:
        ``turns`` that were acknowledged; ``pending``: those of them that were not recorded yet; ``looks`` at all
        memories after kills; ``unseen``: looks that lacked a memory which an earlier one had; ``lost``, ``doubled``.
    """
    rng = random.Random(seed)
    _import_everything()
    recorded: dict[int, bool] = {}
    seen: set[str] = set()
    looks = unseen = 0
    with tempfile.TemporaryDirectory(prefix="threadkeep-invariants-") as folder:
        url = url or f"sqlite:///{folder}/memory.sqlite3"
        first = 0
        for _ in range(n):
            turns = _life(url, first, rng)
            recorded |= turns
            # A killed child's last turn may be there unacknowledged, so its number is not used again.
            first = max(turns, default=first) + 2
            for walked in _looks(url):
                looks, unseen = looks + 1, unseen + (not seen <= walked)
                seen |= walked
        memories, messages = _kept(url, first)
    lost = [
        turn
        for turn, learnt in recorded.items()
        if not messages[statement(turn)] or (learnt and not memories[statement(turn)])
    ]
    for turn in lost:
        text = statement(turn)
        sys.stderr.write(f"sigkill: turn {turn} is in {memories[text]} memories and {messages[text]} threads\n")
    doubled = [text for text, times in (memories + messages).items() if memories[text] > 1 or messages[text] > 1]
    found = {"looks": looks, "unseen": unseen, "lost": len(lost), "doubled": len(doubled)}
    return {"n": n, "turns": len(recorded), "pending": list(recorded.values()).count(False), **found}


def statement(turn: int) -> str:
    """Return what the user says in *turn*: a durable fact that no other turn states or replaces."""
    return f"I keep the spare key of locker {turn} behind shelf {turn * 7 + 3}."


def _import_everything() -> None:
    """Take one turn here and close again, so that children need not spend their lives importing."""
    with tempfile.TemporaryDirectory(prefix="threadkeep-invariants-") as folder, _memory(f"sqlite:///{folder}/m") as tk:
        said = {"messages": [{"role": "user", "content": statement(0)}]}
        tk.graph().invoke(said, tk.config(user_id=USER, thread_id="first"), durability="sync")


def _looks(url: str) -> list[set[str]]:
    """Return the ids of all memories, as a process sees them that starts now, several times."""
    with _memory(url) as tk:
        return [{one.memory_id for one in tk.sync.memories.walk(owner=USER)} for _ in range(LOOKS)]


def _life(url: str, first: int, rng: random.Random) -> dict[int, bool]:
    """Let a child take turns from number *first* on until it is killed.

    Return the acknowledged ones, and whether each was recorded.

    It is killed a moment after a random number of turns, however slow the machine is, so that kills fall into the work.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _live(url, first, writing)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as acknowledgements:
        said, awaited = b"", 1 + rng.randint(0, MOST_TURNS)
        while said.count(b"\n") < awaited:
            ready, _, _ = select.select([acknowledgements], [], [], LONGEST_SILENCE_SECONDS)
            heard = os.read(reading, 4096) if ready else b""
            if not heard:
                msg = f"the child said {said!r} and nothing more"
                raise TimeoutError(msg)
            said += heard
        time.sleep(rng.uniform(0, LONGEST_WORK_SECONDS))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        said += acknowledgements.read()
    lines = [line.split() for line in said.split(b"\n")[:-1] if line != b"ready"]
    return {int(turn): status in RECORDED for turn, status in lines}


def _live(url: str, first: int, writing: int) -> NoReturn:
    """Take turns for ever, acknowledging each over the pipe once the run has returned, with its receipt's status."""
    with contextlib.suppress(BaseException):
        tk = _memory(url)
        graph = tk.graph()
        tk.sync.ready()
        os.write(writing, b"ready\n")
        turn = first
        while True:
            # One of its own for each: the thread of a killed process is leased for a while.
            config = tk.config(user_id=USER, thread_id=f"thread-{turn}")
            said = {"messages": [{"role": "user", "content": statement(turn)}]}
            told = list(graph.stream(said, config, durability="sync", stream_mode="custom"))
            (status,) = [event["status"] for event in told if event["type"] == "captured"]
            os.write(writing, b"%d %s\n" % (turn, status.encode()))
            turn += 1
    os._exit(1)


def _kept(url: str, turns: int) -> tuple[Counter[str], Counter[str]]:
    """Open the memory once more, learn what is left, and count the statements in memories and in *turns* threads."""
    memories: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    with _memory(url) as tk:
        tk.sync.ready()
        graph = tk.graph()
        tk.sync.drain()
        memories.update(memory.text for memory in tk.sync.memories.walk(owner=USER) if memory.kind == "semantic")
        for waiting in tk.sync.queue.list(owner=USER):
            sys.stderr.write(f"sigkill: still in the queue: {waiting}\n")
        for thread in range(turns):
            state = graph.get_state(tk.config(user_id=USER, thread_id=f"thread-{thread}"))
            messages.update(message.text for message in state.values.get("messages", ()) if message.type == "human")
    return memories, messages


def _memory(url: str) -> threadkeep.Threadkeep:
    settings = resolve_settings(url, Settings().model_copy(update={"capture_tries": TRIES}))
    return threadkeep.open(settings=settings, embedder=HashingEmbedder(), model=ScriptedModel(replies=["Noted."]))
