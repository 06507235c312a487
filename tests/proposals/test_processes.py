"""Proposals between processes: decided once, whoever is killed, and the same after a restart; on files and servers."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph.types import Command

import threadkeep
from tests.processes import PIPE, PythonProcess, start_python
from tests.proposals.decider import OWNER, TEXT, agent
from threadkeep.errors import ProposalDecidedError
from threadkeep.proposals.models import Choice
from threadkeep.testing import FrozenClock, HashingEmbedder

ROOT: Final = Path(__file__).parent.parent.parent
EACH: Final = 12

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty storage is that processes share."""
    return f"sqlite:///{tmp_path}/memory.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def opened(url: str, clock: FrozenClock | None = None) -> threadkeep.Threadkeep:
    """Open a memory of one owner."""
    return threadkeep.open(url, owner=OWNER, embedder=HashingEmbedder(), clock=clock)


def process(*arguments: str) -> PythonProcess:
    """Start another process."""
    return start_python("-m", "tests.proposals.decider", *arguments, cwd=ROOT, stdin=PIPE, stdout=PIPE)


@pytest.mark.long
def test_only_one_of_two_processes_succeeds(url: str):
    """Each proposal is approved by one of them, as that one worded it."""
    with opened(url) as tk:
        for number in range(EACH):
            tk.sync.proposals.propose(f"The user owns car number {number}.")
        made = {one.proposal_id for one in tk.sync.proposals.list()}
    both = [process("decide", url, by) for by in ("carla", "dora")]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    told = [set(json.loads(one.communicate()[0])) for one in both]

    with opened(url) as tk:
        decided = {one.proposal_id: one.decision for one in tk.sync.proposals.list(state="approved")}
        texts = sorted(memory.text for memory in tk.sync.memories.list())

    assert len(made) == EACH
    assert told[0] & told[1] == set()
    assert told[0] | told[1] == made == set(decided)
    for by, mine in zip(("carla", "dora"), told, strict=True):
        assert {key for key, decision in decided.items() if decision and decision.by == by} == mine
    assert texts == sorted(f"{decision.by} decided {key}." for key, decision in decided.items() if decision)


@pytest.mark.linux
@pytest.mark.parametrize(
    ("url", "when", "kept"),
    [
        ("sqlite", "before", "kept"),
        ("sqlite", "after", "kept"),
        ("sqlite", "before", "lost"),
        ("sqlite", "after", "lost"),
        ("postgres", "before", "kept"),
    ],
    indirect=["url"],
)
async def test_run_that_is_killed_at_its_answer_goes_on(
    url: str, when: str, kept: str, monkeypatch: pytest.MonkeyPatch
):
    """Between the answer and the commit, and between the commit and the reply: it is approved, once.

    An answer that had not come into the checkpoints is asked for again, unless it was acted on already.
    """
    monkeypatch.setenv("THREADKEEP_LEASE_SECONDS", "3")  # the next run waits for the killed one's
    async with opened(url) as tk:
        config = tk.config(user_id=OWNER, thread_id="1")
        asked: Any = {"messages": [("human", "Which vendor?")]}
        paused = await agent(tk).ainvoke(asked, config)
        assert "__interrupt__" in paused
    with process("answer", url, when, kept) as victim:
        victim.communicate()
    assert victim.returncode == -signal.SIGKILL

    async with opened(url) as tk:
        (before,) = await tk.proposals.list(state=None)
        done = await agent(tk).ainvoke(None, config)
        assert ("__interrupt__" in done) == (kept == "lost" and when == "before")
        if "__interrupt__" in done:
            done = await agent(tk).ainvoke(Command(resume="approve"), config)
        (proposal,) = await tk.proposals.list(state=None)
        memories = await tk.memories.list()

    assert before.state == ("pending" if when == "before" else "approved")
    assert "Approved" in next(one.text for one in done["messages"] if one.type == "tool")
    assert proposal.state == "approved"
    assert [memory.text for memory in memories] == [TEXT]


async def test_keys_hold_after_a_restart(url: str):
    """The same proposal and the same decision, told again; another decision is an error that names the first."""
    async with opened(url) as tk:
        made = await tk.proposals.propose("The user likes tea.", key="job-17/3")
    assert made.proposal is not None
    key = made.proposal.proposal_id
    async with opened(url) as tk:
        again = await tk.proposals.propose("The user likes tea.", key="job-17/3")
        await tk.proposals.edit(key, "The user likes green tea.", by="carla", key="click-1")
    async with opened(url) as tk:
        told = await tk.proposals.edit(key, "The user likes green tea.", by="carla", key="click-1")
        with pytest.raises(ProposalDecidedError, match="carla"):
            await tk.proposals.reject(key, by="dora", key="click-2")
        late = await tk.proposals.propose("The user likes tea.", key="job-17/3")
        texts = [memory.text for memory in await tk.memories.list()]

    assert (again.status, again.proposal and again.proposal.proposal_id) == ("duplicate", key)
    assert (told.state, told.decision and told.decision.text) == ("approved", "The user likes green tea.")
    assert (late.status, late.proposal and late.proposal.state) == ("duplicate", "approved")
    assert texts == ["The user likes green tea."]


async def test_half_of_a_batch_may_be_invalid(url: str):
    """Decided before, expired, nobody's, too long: each says why, and the others are decided and stay so."""
    clock = FrozenClock()
    async with opened(url, clock) as tk:
        expired = (await tk.proposals.propose("The user likes rain.")).proposal
        clock.advance(timedelta(days=29))
        made = [(await tk.proposals.propose(f"The user owns boat number {number}.")).proposal for number in range(4)]
        clock.advance(timedelta(days=2))
        keys = [one.proposal_id for one in made if one]
        await tk.proposals.reject(keys[0], by="dora")
        choices = [
            Choice(keys[0], approve=True),
            Choice(keys[1], approve=True, text="The user owns one boat."),
            Choice(expired.proposal_id if expired else "", approve=True),
            Choice("nobody's", approve=False),
            Choice(keys[2], approve=True, text="x" * 9_000),
            Choice(keys[3], approve=False),
        ]
        done = await tk.proposals.decide(choices, by="carla")
    async with opened(url, clock) as tk:
        states = {one.proposal_id: one.state for one in await tk.proposals.list(state=None)}
        texts = [memory.text for memory in await tk.memories.list()]

    errors = [type(one.error).__name__ if one.error else None for one in done]
    assert errors == [
        "ProposalDecidedError",
        None,
        "ProposalDecidedError",
        "ProposalNotFoundError",
        "TooLargeError",
        None,
    ]
    assert [states[key] for key in keys] == ["rejected", "approved", "pending", "rejected"]
    assert texts == ["The user owns one boat."]
