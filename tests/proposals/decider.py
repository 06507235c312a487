"""Another process that decides on proposals: on all of them at once, or on the one that a run waits for, and dies."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.types import Command

import threadkeep
from threadkeep.errors import ProposalDecidedError
from threadkeep.storage.port import Batch
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
    call = AIMessage("", tool_calls=[{"name": "propose_memory_update", "args": {"statement": TEXT}, "id": "call-1"}])
    return create_agent(
        ScriptedModel(replies=[call, "Done."]), tk.tools("propose_memory_update"), checkpointer=tk.checkpointer
    )


def answer(url: str, when: str) -> None:
    """Give the run its answer, and be killed right before or after what was decided is committed."""
    with threadkeep.open(url, owner=OWNER, embedder=HashingEmbedder()) as tk:
        commit = tk.app.storage.commit

        async def deadly(batch: Batch) -> Any:
            decides = any("decision" in getattr(one, "value", {}) for one in batch.operations)
            if decides and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done = await commit(batch)
            if decides:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        tk.app.storage.commit = deadly
        agent(tk).invoke(Command(resume="approve"), tk.config(user_id=OWNER, thread_id="1"))


if __name__ == "__main__":
    {"decide": decide, "answer": answer}[sys.argv[1]](*sys.argv[2:])
