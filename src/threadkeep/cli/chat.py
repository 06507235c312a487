"""``threadkeep chat`` and ``threadkeep demo``: an agent that remembers, to talk to and to watch."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    DataDir,
    Json,
    User,
    emit,
    err,
    open_memory,
    out,
    plain,
    print_json,
    visible,
)

if TYPE_CHECKING:
    import asyncio

    from threadkeep.client import Threadkeep

LEARNING_SECONDS: Final = 5.0
"""How long the command waits after a reply to show what was learnt."""

EMPTY_STREAM: Final = "No generations found in stream."
"""LangChain's message about a stream that ends before it begins."""

_REFUSED: Final = (401, 403, 404)
"""What providers answer, by HTTP, to a key or a model that they do not know."""

SILENCE_SECONDS: Final = 10.0
"""A model that is silent for so long is told of; then again whenever its silence has doubled."""


def chat(
    user: User = DEFAULT_USER,
    thread: Annotated[
        str | None, typer.Option("--thread", "-t", help="Go on with this thread; unset: a new one.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Talk to an agent that remembers; shows what was recalled and learnt. Ctrl-D leaves."""
    import asyncio

    from threadkeep.checkpoints.thread_ids import thread_id_from
    from threadkeep.errors import ThreadkeepError
    from threadkeep.ids import new_id

    thread_id = new_id()[:8] if thread is None else thread_id_from(thread)
    failed = False
    with open_memory(data_dir) as tk:
        graph = tk.graph()  # first: it is what makes the checkpointer one that is in use
        health = tk.sync.ready()
        if not json:
            out.print(f"User {plain(user)}, thread {plain(thread_id)}, {health.storage}", markup=False, style="dim")
            if health.degraded:
                out.print("No embedding model: search is by words only. pip install threadkeep\\[local]", style="dim")
        with asyncio.Runner() as runner:
            while (text := _read(json=json)) is not None:
                if not text.strip():
                    continue
                shown = _ShownTurn(tk, user, thread_id, json=json)
                try:
                    runner.run(shown.take(graph, text))
                    failed = False
                except KeyboardInterrupt:
                    err.print("\nStopped. What you wrote is kept; write on, or Ctrl-D to leave.")
                except ThreadkeepError as error:
                    failed = True
                    err.print(f"\n{plain(str(error))}", markup=False)
                except Exception as error:  # noqa: BLE001 - whatever the model's package raises ends the turn only
                    failed = True
                    err.print(f"\nThe model {_how(error)}. What you wrote is kept; {_what_next(error)}.")
    if failed:
        sys.exit(1)


def _read(*, json: bool) -> str | None:
    """Return the next line, ``None`` at the end; a prompt is shown to people only."""
    interactive = sys.stdin.isatty() and not json
    try:
        if interactive:
            return out.input("[bold]> [/bold]")
        line = sys.stdin.readline()
    except (EOFError, KeyboardInterrupt):
        return None
    return line.rstrip("\n") if line else None


def _how(error: Exception) -> str:
    """Say how the model failed; what its package says may quote what is secret."""
    empty = isinstance(error, ValueError) and str(error) == EMPTY_STREAM
    return "said nothing" if empty else f"failed ({type(error).__name__})"


def _what_next(error: Exception) -> str:
    """Say what may help: a key that was refused will be refused again."""
    refused = getattr(error, "status_code", None) in _REFUSED
    return "check the model's key and its name" if refused else "try again"


class _ShownTurn:
    """One input and everything that is shown about it."""

    def __init__(self, tk: Threadkeep, user: str, thread_id: str, *, json: bool) -> None:
        self._tk = tk
        self._user = user
        self._thread_id = thread_id
        self._json = json
        self._reply = ""
        self._recalled: list[str] = []
        self._turns: list[str] = []
        self._degraded: set[str] = set()
        self._silence: asyncio.TimerHandle | None = None

    async def take(self, graph: Any, text: str) -> None:
        """Run the graph on *text*, streaming the reply, and show what was recalled and learnt."""
        config = self._tk.config(user_id=self._user, thread_id=self._thread_id)
        stream = graph.astream(
            {"messages": [{"role": "user", "content": text}]},
            config,
            stream_mode=["messages", "custom"],
            durability="sync",
        )
        self._listen()
        try:
            async for mode, event in stream:
                if mode == "custom":
                    await self._note(event)
                elif event[0].type in ("AIMessageChunk", "ai"):  # whole, where the model cannot stream
                    self._say(event[0].text)
                self._listen()
        finally:
            self._stop_listening()
        if not self._reply.strip() and not self._json:
            out.print("The model said nothing.", style="dim", end="")
        learnt = await self._learnt()
        if self._json:
            print_json(
                {
                    "thread_id": self._thread_id,
                    "reply": self._reply,
                    "recalled": self._recalled,
                    "learnt": learnt,
                    "degraded": sorted(self._degraded),
                }
            )
            return
        out.print()
        for statement in learnt:
            out.print(f"  learnt: {plain(statement)}", markup=False, style="dim")

    def _listen(self, silent: float = 0.0) -> None:
        """Tell of the model's silence where nothing comes from now on; *silent* seconds of it are over already."""
        import asyncio

        self._stop_listening()
        more = silent or SILENCE_SECONDS
        self._silence = asyncio.get_running_loop().call_later(more, self._tell_silence, silent + more)

    def _stop_listening(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _tell_silence(self, seconds: float) -> None:
        err.print(f"\nThe model has not answered for {seconds:.0f} seconds; wait on, or stop it with Ctrl-C.")
        self._listen(seconds)

    async def _note(self, event: dict[str, Any]) -> None:
        self._degraded.update(event.get("degraded", ()))
        if event.get("type") == "captured":
            self._turns += event["turns"]
        if event.get("type") != "recalled":
            return
        for row in event["memories"]:
            memory = await self._tk.memories.get(row["id"], owner=self._user)
            if memory is None:
                continue
            self._recalled.append(memory.text)
            if not self._json:
                out.print(f"  recalled: {plain(memory.text)}", markup=False, style="dim")

    def _say(self, piece: str) -> None:
        self._reply += piece
        if not self._json:
            out.print(visible(piece, besides="\n\t"), end="", markup=False)

    async def _learnt(self) -> list[str]:
        if not self._turns:
            return []
        learnt = await self._tk.settle(self._turns, owner=self._user, timeout=timedelta(seconds=LEARNING_SECONDS))
        memories = [await self._tk.memories.get(memory_id, owner=self._user) for memory_id in learnt.memory_ids]
        return [memory.text for memory in memories if memory]


DEMO_USER: Final = "ana.maria@example.org"
DEMO_TIMEOUT_MS: Final = 30_000
"""The demo shows what is recalled, not how fast: a busy machine may take longer than a turn would wait."""

DEMO_STATEMENTS: Final = (
    "Hi! I'm Ana and I work as a site reliability engineer in Lisbon.",
    "We deploy with Argo CD to the prod-west cluster, and I prefer short answers with YAML examples.",
    "My daughter Inês is allergic to peanuts.",
)
DEMO_QUESTIONS: Final = (
    ("Which cluster do we deploy to?", "prod-west"),
    ("What should I not cook for my daughter?", "peanuts"),
)


def demo(*, json: Json = False) -> None:
    """Teach an agent something in one thread and ask for it in another: no server, no key, no network."""
    with tempfile.TemporaryDirectory(prefix="threadkeep-demo-") as folder:
        taught = _teach(Path(folder), json=json)
        asked = _ask(Path(folder), json=json)
    known = sum(row["known"] for row in asked)
    emit(
        {"user": DEMO_USER, "learnt": taught, "asked": asked, "known": known, "of": len(DEMO_QUESTIONS)},
        [f"\nThe second thread knew {known} of {len(DEMO_QUESTIONS)} things that the first one taught."],
        json=json,
    )
    if known < len(DEMO_QUESTIONS):
        err.print("The demo failed: the second thread did not know what the first one taught.")
        sys.exit(1)


def _teach(folder: Path, *, json: bool) -> list[dict[str, Any]]:
    """Talk in a first thread and close everything; return what was learnt."""
    with _open_demo(folder) as tk:
        graph: Any = tk.graph()
        _print_title("Thread 1: Ana talks about herself", json=json)
        for text in DEMO_STATEMENTS:
            reply = graph.invoke(_input(text), tk.config(user_id=DEMO_USER, thread_id="thread-1"))
            _print_exchange(text, reply["messages"][-1].text, json=json)
    with _open_demo(folder) as tk:
        rows: list[dict[str, Any]] = [
            {
                "memory": memory.text,
                "kind": memory.kind,
                "thread": memory.sources[0].thread_id,
                "message": memory.sources[0].message_id,
                "said_by": memory.sources[0].speaker,
            }
            for memory in tk.sync.memories.list(owner=DEMO_USER)
        ]
    if not json:
        out.print("\nLearnt:", style="bold")
        for row in rows:
            out.print(f"  {plain(row['memory'])}", markup=False)
            out.print(f"    {row['kind']}, said by the {row['said_by']} in {row['thread']}", markup=False, style="dim")
    return rows


def _ask(folder: Path, *, json: bool) -> list[dict[str, Any]]:
    """Ask in a second thread of a newly opened memory; return what it knew, and from where."""
    asked: list[dict[str, Any]] = []
    with _open_demo(folder) as tk:
        graph = tk.graph()
        _print_title("Thread 2: the process was closed and opened again", json=json)
        for question, answer in DEMO_QUESTIONS:
            config = tk.config(user_id=DEMO_USER, thread_id="thread-2")
            found, reply = _stream_turn(tk, graph, question, config)
            asked.append(
                {
                    "question": question,
                    "reply": reply,
                    "recalled": found,
                    "known": any(answer in row["memory"] for row in found) and answer in reply,
                }
            )
            if not json:
                for row in found:
                    origin = f"from {row['thread']}, score {row['score']:.2f}"
                    out.print(f"  recalled: {plain(row['memory'])} ({origin})", markup=False, style="dim")
            _print_exchange(question, reply, json=json)
    return asked


def _stream_turn(tk: Threadkeep, graph: Any, question: str, config: Any) -> tuple[list[dict[str, Any]], str]:
    found: list[dict[str, Any]] = []
    reply = ""
    for mode, event in graph.stream(_input(question), config, stream_mode=["values", "custom"]):
        if mode == "values":
            reply = event["messages"][-1].text
        elif event["type"] == "recalled":
            for row in event["memories"]:
                memory = tk.sync.memories.require(row["id"], owner=DEMO_USER)
                thread = memory.sources[0].thread_id
                found.append({"memory": memory.text, "thread": thread, "score": row["score"]})
    return [row for row in found if row["thread"] == "thread-1"], reply


def _open_demo(folder: Path) -> Threadkeep:
    """Open memories and threads in *folder*, with the stand-in model, whatever the environment says."""
    import threadkeep
    from threadkeep.models.langchain import OfflineChatModel
    from threadkeep.settings import Settings

    settings = Settings.load(
        store_type="sqlite",
        data_dir=folder,
        store_sqlite_path=folder / "memory.sqlite3",
        checkpoint_type="sqlite",
        checkpoint_sqlite_path=folder / "memory.sqlite3",
        recall_timeout_ms=DEMO_TIMEOUT_MS,
    )
    tk = threadkeep.open(settings=settings, model=OfflineChatModel())
    tk.sync.ready()
    return tk


def _input(text: str) -> dict[str, Sequence[dict[str, str]]]:
    return {"messages": [{"role": "user", "content": text}]}


def _print_title(text: str, *, json: bool) -> None:
    if not json:
        out.print(f"\n{text}", style="bold")


def _print_exchange(text: str, reply: str, *, json: bool) -> None:
    if not json:
        out.print(f"  Ana:   {text}", markup=False)
        out.print(f"  Agent: {reply}", markup=False)
