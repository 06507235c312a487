"""``threadkeep demo``: a second conversation knows what the first one taught."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadkeep.cli.output import Json, err, out, plain, print_json

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep

USER: Final = "ana.maria@example.org"
PATIENCE_MS: Final = 30_000
"""A machine that is busy may take its time: this shows what is known, not how fast."""

FIRST: Final = (
    "Hi! I'm Ana and I work as a site reliability engineer in Lisbon.",
    "We deploy with Argo CD to the prod-west cluster, and I prefer short answers with YAML examples.",
    "My daughter Inês is allergic to peanuts.",
)
SECOND: Final = (
    ("Which cluster do we deploy to?", "prod-west"),
    ("What should I not cook for my daughter?", "peanuts"),
)


def demo(*, json: Json = False) -> None:
    """Teach an agent something in one thread and ask for it in another: no server, no key, no network."""
    with tempfile.TemporaryDirectory(prefix="threadkeep-demo-") as folder:
        taught = _teach(Path(folder), json=json)
        asked = _ask(Path(folder), json=json)
    known = sum(row["known"] for row in asked)
    if json:
        print_json({"user": USER, "learnt": taught, "asked": asked, "known": known, "of": len(SECOND)})
    else:
        out.print(f"\nThe second thread knew {known} of {len(SECOND)} things that the first one taught.")
    if known < len(SECOND):
        err.print("The demo failed: the second thread did not know what the first one taught.")
        sys.exit(1)


def _teach(folder: Path, *, json: bool) -> list[dict[str, Any]]:
    """Talk in a first thread and close everything; return what was learnt."""
    with _memory(folder) as tk:
        graph: Any = tk.graph()
        _title("Thread 1: Ana talks about herself", json=json)
        for text in FIRST:
            reply = graph.invoke(_said(text), tk.config(user_id=USER, thread_id="thread-1"))
            _exchange(text, reply["messages"][-1].text, json=json)
    with _memory(folder) as tk:
        rows: list[dict[str, Any]] = [
            {
                "memory": memory.text,
                "kind": memory.kind,
                "thread": memory.sources[0].thread_id,
                "message": memory.sources[0].message_id,
                "said_by": memory.sources[0].speaker,
            }
            for memory in tk.sync.memories.list(owner=USER)
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
    with _memory(folder) as tk:
        graph = tk.graph()
        _title("Thread 2: the process was closed and opened again", json=json)
        for question, answer in SECOND:
            config = tk.config(user_id=USER, thread_id="thread-2")
            found, reply = _streamed(tk, graph, question, config)
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
            _exchange(question, reply, json=json)
    return asked


def _streamed(tk: Threadkeep, graph: Any, question: str, config: Any) -> tuple[list[dict[str, Any]], str]:
    found: list[dict[str, Any]] = []
    reply = ""
    for mode, event in graph.stream(_said(question), config, stream_mode=["values", "custom"]):
        if mode == "values":
            reply = event["messages"][-1].text
        elif event["type"] == "recalled":
            for row in event["memories"]:
                memory = tk.sync.memories.require(row["id"], owner=USER)
                thread = memory.sources[0].thread_id
                found.append({"memory": memory.text, "thread": thread, "score": row["score"]})
    return [row for row in found if row["thread"] == "thread-1"], reply


def _memory(folder: Path) -> Threadkeep:
    """Open memories and threads in *folder*, with the stand-in model, whatever the environment says."""
    import threadkeep
    from threadkeep.models.langchain import OfflineChatModel
    from threadkeep.settings import Settings

    settings = Settings.load(
        store_type="sqlite",
        data_dir=folder,
        store_sqlite_path=folder / "memory.sqlite3",
        checkpoint_type="sqlite",
        checkpoint_sqlite_path=folder / "threads.sqlite3",
        recall_timeout_ms=PATIENCE_MS,
    )
    tk = threadkeep.open(settings=settings, model=OfflineChatModel())
    tk.sync.ready()
    return tk


def _said(text: str) -> dict[str, Sequence[dict[str, str]]]:
    return {"messages": [{"role": "user", "content": text}]}


def _title(text: str, *, json: bool) -> None:
    if not json:
        out.print(f"\n{text}", style="bold")


def _exchange(text: str, reply: str, *, json: bool) -> None:
    if not json:
        out.print(f"  Ana:   {text}", markup=False)
        out.print(f"  Agent: {reply}", markup=False)
