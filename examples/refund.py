"""A refund that a person approves: two checks side by side, one payment, and any process may go on with it.

    python examples/refund.py start  --job r1 --amount 120
    python examples/refund.py answer --job r1 --yes
    python examples/refund.py retry  --job r1

Kill it wherever you like and run ``retry``: finished nodes do not run again, the person is asked once,
and the money is paid once. The nodes write what they do to ``--log``; questions and payments go to a ledger
that knows idempotency keys, as providers of both do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

import threadkeep
from threadkeep.langgraph.runs import JobState

CUSTOMER = "ana@x.org"
SMALL = 1_000

Log = Callable[[str], None]


def build(tk: threadkeep.Threadkeep, ledger: Path, log: Log) -> Any:
    """Compile the flow: load, then fraud and policy side by side, then the person, then the payment."""

    async def load(state: JobState) -> dict[str, Any]:
        log("load")
        return {"data": {"order": "A-17", "amount": state["input_data"]["amount"]}}

    async def fraud(_: JobState) -> dict[str, Any]:
        log("fraud")
        return {"responses": [{"fraud": "low"}]}

    async def policy(state: JobState) -> dict[str, Any]:
        log("policy")
        return {"responses": [{"policy": "small" if state["data"]["amount"] < SMALL else "large"}]}

    async def approve(state: JobState) -> dict[str, Any]:
        await tk.runs.once("ask", lambda key: do_once(ledger, f"ask-{key}", "May this be refunded?"))
        approved = interrupt({"refund": state["data"], "checks": state["responses"]})
        return {"extras": {"approved": bool(approved)}}

    async def pay(state: JobState) -> dict[str, Any]:
        log("pay")
        if not state["extras"]["approved"]:
            return {"responses": [{"paid": 0}]}
        paid = await tk.runs.once("pay", lambda key: do_once(ledger, f"pay-{key}", state["data"]["amount"]))
        return {"responses": [{"paid": paid}]}

    flow = StateGraph(JobState)
    for node in (load, fraud, policy, approve, pay):
        flow.add_node(node.__name__, node)
    flow.add_edge(START, "load")
    flow.add_edge("load", "fraud")
    flow.add_edge("load", "policy")
    flow.add_edge(["fraud", "policy"], "approve")
    flow.add_edge("approve", "pay")
    flow.add_edge("pay", END)
    return flow.compile(checkpointer=tk.checkpointer)


def do_once(ledger: Path, key: str, what: Any) -> Any:
    """Do what providers of payments and messages do: what comes with a key that they have seen changes nothing more."""
    ledger.mkdir(exist_ok=True)
    try:
        with (ledger / key).open("x") as file:
            file.write(str(what))
    except FileExistsError:
        pass
    return what


def written_to(path: Path) -> Log:
    """Return what writes a line to *path*."""

    def log(line: str) -> None:
        with path.open("a") as file:
            file.write(f"{line}\n")

    return log


async def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("start", "answer", "retry"))
    parser.add_argument("--job", required=True)
    parser.add_argument("--amount", type=int, default=120)
    parser.add_argument("--yes", action="store_true", help="approve; without it the refund is refused")
    parser.add_argument("--url", default="sqlite:///refunds.sqlite3", help="where jobs are kept")
    parser.add_argument("--ledger", type=Path, default=Path("ledger"))
    parser.add_argument("--log", type=Path, default=Path("refund.log"))
    given = parser.parse_args()
    async with threadkeep.open(given.url, owner=CUSTOMER, embedder="none") as tk:
        graph = build(tk, given.ledger, written_to(given.log))
        if given.command == "start":
            run = await tk.runs.start(graph, {"input_data": {"amount": given.amount}}, thread_id=given.job)
        elif given.command == "answer":
            run = await tk.runs.resume(graph, given.yes, thread_id=given.job)
        else:
            run = await tk.runs.retry(graph, thread_id=given.job)
    print(json.dumps({"status": run.status, "responses": run.values.get("responses", [])}))


if __name__ == "__main__":
    asyncio.run(main())
