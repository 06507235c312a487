"""Another process that decides on proposals: on all of them at once, or on the one that a run waits for, and dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import RESUME
from langgraph.types import Command

import threadkeep
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import ProposalDecidedError
from threadkeep.storage.interface import Batch
from threadkeep.testing import HashingEmbedder, ScriptedModel

OWNER = "ana@x.org"
TEXT = "I prefer vendor Y."


def decide(url: str, by: str) -> None:
    """Approve every proposal as soon as a line comes in, and print which of them this process was told yes about."""
    with threadkeep.open(url, owner=OWNER, embedder=HashingEmbedder()) as tk:
        waiting = [one.proposal_id for one in tk.sync.proposals.list()]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        mine: list[str] = []
        for proposal_id in waiting:
            try:
                tk.sync.proposals.edit(proposal_id, f"{by} decided {proposal_id}.", by=by)
            except ProposalDecidedError:
                continue
            mine.append(proposal_id)
        sys.stdout.write(json.dumps(mine))


def agent(tk: threadkeep.Threadkeep) -> Any:
    """Return an agent that proposes a statement and waits for the answer."""
    call = AIMessage("", tool_calls=[{"name": "propose_memory_update", "args": {"text": TEXT}, "id": "call-1"}])
    return create_agent(
        ScriptedModel(replies=[call, "Done."]), tk.tools("propose_memory_update"), checkpointer=tk.checkpointer
    )


def answer(url: str, when: str, kept: str) -> None:
    """Give the run its answer, and be killed right before or after what was decided is committed.

    By then the answer is in the checkpoints, or it never gets there: LangGraph writes it beside what the answer does.
    """
    with threadkeep.open(url, owner=OWNER, embedder=HashingEmbedder()) as tk:
        commit, config, checkpointer = tk.app.storage.commit, tk.config(user_id=OWNER, thread_id="1"), tk.checkpointer
        assert checkpointer is not None

        async def deadly(batch: Batch) -> Any:
            decides = any("decision" in getattr(one, "value", {}) for one in batch.operations)
            while decides and kept == "kept" and not await answered(checkpointer, config):
                await asyncio.sleep(0.001)
            if decides and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done = await commit(batch)
            if decides:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        def never(*_: object) -> None:
            """Keep nothing, and do not return."""
            threading.Event().wait()

        tk.app.storage.commit = deadly
        if kept == "lost":
            checkpointer.put_writes = never  # type: ignore[method-assign]
        agent(tk).invoke(Command(resume="approve"), config)


async def answered(checkpointer: ThreadkeepCheckpointer, config: RunnableConfig) -> bool:
    """Return whether the thread holds the answer."""
    found = await checkpointer.aget_tuple(config)
    return found is not None and any(channel == RESUME for _, channel, _ in found.pending_writes or ())


if __name__ == "__main__":
    {"decide": decide, "answer": answer}[sys.argv[1]](*sys.argv[2:])
