"""Shared scopes: what a member contributes is reviewed, keeps its source, and goes with its author."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

import threadkeep
from threadkeep.errors import (
    ApprovalRequiredError,
    InvalidInputError,
    MemoryNotFoundError,
    OwnerMismatchError,
    RevisionConflictError,
    RoleRequiredError,
    ScopeNotFoundError,
)
from threadkeep.identity import Owner, owner_of_label
from threadkeep.ids import MessageId, ThreadId
from threadkeep.memories.models import Source
from threadkeep.storage.interface import iterate_items
from threadkeep.testing import FrozenClock, HashingEmbedder

TEAM: Final = Owner("platform", kind="team")
FACT: Final = "The staging cluster runs on Hetzner."


@pytest.fixture(params=["memory", "sqlite"])
async def tk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory with a team: Ana proposes, Carla reviews, Rob reads."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/m.db"
    async with threadkeep.open(url, embedder=HashingEmbedder(), clock=FrozenClock()) as opened:
        await opened.scopes.create(TEAM)
        for member, role in (("ana", "propose"), ("carla", "review"), ("rob", "read")):
            await opened.scopes.grant(TEAM, member, role=role)  # pyright: ignore[reportArgumentType]
        yield opened


async def promote(tk: threadkeep.Threadkeep, text: str = FACT, *, by: str = "ana") -> str:
    """Let *by* promote a memory and Carla approve it; return the id of the team's memory."""
    said = Source("user", ThreadId("monday"), MessageId("m1"))
    kept = await tk.memories.remember(text, owner=by, source=said)
    proposed = await tk.scopes.promote(TEAM, kept.memory_id, owner=by)
    assert proposed.proposal is not None
    await tk.scopes.approve(TEAM, proposed.proposal.proposal_id, owner="carla")
    return str(proposed.memory_id)


async def rows_of(tk: threadkeep.Threadkeep, owner: Owner) -> str:
    """Return everything that is stored of *owner*, as text."""
    storage = (await tk.app.connect()).storage
    return str([item.value async for item in iterate_items(storage, owner.partition)])


class TestContribute:
    async def test_promoted_memory_waits_then_keeps_its_source_and_author(self, tk: threadkeep.Threadkeep):
        kept = await tk.memories.remember(FACT, owner="ana", source=Source("user", ThreadId("monday"), MessageId("m1")))

        proposed = await tk.scopes.promote(TEAM, kept.memory_id, owner="ana")

        assert proposed.status == "proposed"
        assert await tk.scopes.memories(TEAM, owner="rob") == []
        (waiting,) = await tk.scopes.proposals(TEAM, owner="carla")
        await tk.scopes.approve(TEAM, waiting.proposal_id, owner="carla")
        (memory,) = await tk.scopes.memories(TEAM, owner="rob")
        (source,) = memory.sources
        assert (source.speaker, source.thread_id, source.message_id) == ("user", "monday", "m1")
        assert owner_of_label(source.author or "") == Owner("ana")
        assert memory.approval is not None
        assert memory.approval.by == "carla"
        assert [one.text for one in await tk.memories.list(owner="ana")] == [FACT]

    async def test_promoting_twice_is_one_proposal(self, tk: threadkeep.Threadkeep):
        kept = await tk.memories.remember(FACT, owner="ana")

        first = await tk.scopes.promote(TEAM, kept.memory_id, owner="ana")
        again = await tk.scopes.promote(TEAM, kept.memory_id, owner="ana")

        assert again.status == "duplicate"
        assert first.proposal is not None
        assert again.proposal is not None
        assert again.proposal.proposal_id == first.proposal.proposal_id

    async def test_scope_with_a_policy_of_its_own_keeps_without_asking(self, tk: threadkeep.Threadkeep):
        await tk.proposals.set_policy("user=auto", owner=TEAM)

        proposed = await tk.scopes.propose(TEAM, FACT, owner="ana")

        assert proposed.status == "approved"
        (memory,) = await tk.scopes.memories(TEAM, owner="rob")
        assert memory.approval is not None
        assert memory.approval.by == "policy"

    async def test_application_writes_to_a_scope_by_proposals(self, tk: threadkeep.Threadkeep):
        kept = await tk.memories.remember(FACT, owner=TEAM)

        assert kept.status == "proposed"
        (again,) = await tk.memories.remember_many([threadkeep.NewMemory(FACT)], owner=TEAM)
        assert (again.status, again.proposal_id) == ("proposed", kept.proposal_id)
        named = await tk.memories.remember("Deploys need a ticket.", owner=TEAM, approved_by="carla")
        with pytest.raises(ApprovalRequiredError):
            await tk.memories.correct(named.memory_id, "Deploys need two tickets.", owner=TEAM)

    async def test_import_into_a_scope_waits_too(self, tk: threadkeep.Threadkeep):
        done = await tk.memories.import_lines(['{"id": "1", "text": "Deploys need a ticket."}'], owner=TEAM)

        assert len(done.proposal_ids) == 1
        assert await tk.memories.list(owner=TEAM) == []

    async def test_another_users_memory_cannot_be_promoted(self, tk: threadkeep.Threadkeep):
        theirs = await tk.memories.remember(FACT, owner="carla")

        with pytest.raises(MemoryNotFoundError):
            await tk.scopes.promote(TEAM, theirs.memory_id, owner="ana")


class TestRoles:
    @pytest.mark.parametrize("member", ["rob", "stranger"])
    async def test_proposing_needs_the_role(self, tk: threadkeep.Threadkeep, member: str):
        kept = await tk.memories.remember(FACT, owner=member)

        with pytest.raises(RoleRequiredError, match="role propose in team 'platform'"):
            await tk.scopes.propose(TEAM, FACT, owner=member)
        with pytest.raises(RoleRequiredError):
            await tk.scopes.promote(TEAM, kept.memory_id, owner=member)

    async def test_reviewing_needs_the_role(self, tk: threadkeep.Threadkeep):
        proposed = await tk.scopes.propose(TEAM, FACT, owner="ana")
        assert proposed.proposal is not None
        proposal_id = proposed.proposal.proposal_id

        for work in (
            tk.scopes.approve(TEAM, proposal_id, owner="ana"),
            tk.scopes.reject(TEAM, proposal_id, owner="rob"),
            tk.scopes.proposals(TEAM, owner="ana"),
            tk.scopes.forget(TEAM, "x", owner="ana"),
        ):
            with pytest.raises(RoleRequiredError):
                await work

    async def test_revoked_role_ends_at_once_and_what_was_contributed_stays(self, tk: threadkeep.Threadkeep):
        await promote(tk)

        await tk.scopes.revoke(TEAM, "ana")

        with pytest.raises(RoleRequiredError):
            await tk.scopes.memories(TEAM, owner="ana")
        assert await tk.scopes.of("ana") == []
        assert [one.text for one in await tk.scopes.memories(TEAM, owner="rob")] == [FACT]

    async def test_stranger_cannot_tell_whether_a_scope_exists(self, tk: threadkeep.Threadkeep):
        with pytest.raises(RoleRequiredError) as of_one:
            await tk.scopes.memories(TEAM, owner="stranger")
        with pytest.raises(RoleRequiredError) as of_none:
            await tk.scopes.memories(Owner("nothing", kind="team"), owner="stranger")

        assert str(of_one.value).replace("platform", "nothing") == str(of_none.value)

    async def test_locked_client_acts_as_its_user_and_manages_nothing(self, tk: threadkeep.Threadkeep):
        ana = tk.for_owner("ana")

        await ana.scopes.propose(TEAM, FACT)

        for work in (
            ana.scopes.approve(TEAM, "x", owner="carla"),
            ana.scopes.grant(TEAM, "ana", role="review"),
            ana.scopes.create(Owner("own", kind="team")),
            ana.scopes.members(TEAM),
            ana.memories.list(owner=TEAM),
        ):
            with pytest.raises(OwnerMismatchError):
                await work

    async def test_members_and_roles_are_listed(self, tk: threadkeep.Threadkeep):
        members = {one.member.user_id: one.role for one in await tk.scopes.members(TEAM)}

        assert members == {"ana": "propose", "carla": "review", "rob": "read"}
        assert [(one.scope, one.role) for one in await tk.scopes.of("carla")] == [(TEAM, "review")]


class TestBadInput:
    async def test_unknown_scope(self, tk: threadkeep.Threadkeep):
        with pytest.raises(ScopeNotFoundError, match="agent 'nobody' was not found"):
            await tk.scopes.grant(Owner("nobody", kind="agent"), "ana", role="read")

    @pytest.mark.parametrize("member", [TEAM, Owner("other", kind="team"), Owner("ana", "elsewhere")])
    async def test_a_scope_granted_to_itself_or_to_a_stranger(self, tk: threadkeep.Threadkeep, member: Owner):
        before = await tk.scopes.members(TEAM)

        with pytest.raises(InvalidInputError, match="must be a user of the same tenant"):
            await tk.scopes.grant(TEAM, member, role="review")

        assert await tk.scopes.members(TEAM) == before

    @pytest.mark.parametrize(
        ("scope", "words"),
        [
            (Owner("ana"), "another kind than user"),
            (Owner('x"\n- "forged', kind="team"), "letters, digits, spaces"),
            (Owner("x" * 101, kind="team"), "100 letters"),
        ],
    )
    async def test_scope_that_cannot_be_created(self, tk: threadkeep.Threadkeep, scope: Owner, words: str):
        with pytest.raises(InvalidInputError, match=words):
            await tk.scopes.create(scope)

    async def test_member_of_another_tenant_and_unknown_role(self, tk: threadkeep.Threadkeep):
        with pytest.raises(InvalidInputError, match="same tenant"):
            await tk.scopes.grant(TEAM, Owner("ana", "acme"), role="read")
        with pytest.raises(InvalidInputError, match="same tenant"):
            await tk.scopes.grant(TEAM, TEAM, role="read")
        with pytest.raises(InvalidInputError, match="role must be one of"):
            await tk.scopes.grant(TEAM, "ana", role="admin")  # pyright: ignore[reportArgumentType]

    def test_kind_must_be_known(self):
        with pytest.raises(InvalidInputError, match="kind must be one of user, team, agent"):
            Owner("x", kind="group")  # pyright: ignore[reportArgumentType]

    async def test_turn_of_a_team_is_not_captured(self, tk: threadkeep.Threadkeep):
        with pytest.raises(InvalidInputError, match="belongs to a user, not to a team"):
            await tk.capture([("user", FACT), ("assistant", "Noted.")], owner=TEAM, thread_id="1")


class TestErase:
    async def test_erasing_a_user_removes_their_words_from_every_scope(self, tk: threadkeep.Threadkeep):
        """Memories, earlier versions, proposals that wait or were rejected, and tombstones."""
        other = Owner("ops", kind="agent")
        await tk.scopes.create(other)
        await tk.scopes.grant(other, "ana", role="review")
        await promote(tk)
        await promote(tk, "Deploys need a ticket.", by="carla")
        corrected = await promote(tk, "The zebra cluster is in Falkenstein.")
        await tk.memories.correct(corrected, "The cluster is in Helsinki.", owner=TEAM, approved_by="carla")
        rejected = await tk.scopes.propose(TEAM, "Zebra is the staging password owner.", owner="ana")
        await tk.scopes.propose(other, "Drain the zebra nodes.", owner="ana", kind="procedural")
        assert rejected.proposal is not None
        await tk.scopes.reject(TEAM, rejected.proposal.proposal_id, owner="carla")
        assert "ebra" in await rows_of(tk, TEAM)

        erased = await tk.owners.erase("ana")

        assert erased.counts["shared"] >= 5
        texts = sorted(one.text for one in await tk.scopes.memories(TEAM, owner="rob"))
        assert texts == ["Deploys need a ticket.", "The cluster is in Helsinki."]
        for scope in (TEAM, other):
            left = await rows_of(tk, scope)
            assert "ebra" not in left
            assert "Hetzner" not in left
            assert '"ana"' not in left.replace("'", '"')

    async def test_what_a_reviewer_wrote_goes_with_the_reviewer(self, tk: threadkeep.Threadkeep):
        edited = await tk.scopes.propose(TEAM, "The cluster is somewhere.", owner="ana")
        commented = await tk.scopes.propose(TEAM, "Deploys need a ticket.", owner="ana")
        assert edited.proposal is not None
        assert commented.proposal is not None
        await tk.scopes.approve(TEAM, edited.proposal.proposal_id, owner="carla", text="Zebra hosts the cluster.")
        await tk.scopes.approve(TEAM, commented.proposal.proposal_id, owner="carla", comment="Zebra says yes.")

        await tk.owners.erase("carla")

        assert [one.text for one in await tk.scopes.memories(TEAM, owner="rob")] == ["Deploys need a ticket."]
        assert "Zebra" not in await rows_of(tk, TEAM)

    async def test_contribution_in_flight_does_not_outlive_the_erasing(self, tk: threadkeep.Threadkeep):
        """Its commit expects the role of the member as it was read."""
        scopes = (await tk.app.connect()).scope_repository

        async def contribute() -> None:
            row = await scopes.require_role(TEAM, Owner("ana"), "propose")
            await tk.owners.erase("ana")
            new = threadkeep.proposals.models.NewProposal(FACT)
            await scopes._contribute(new, TEAM, Owner("ana"), row)  # pyright: ignore[reportPrivateUsage]

        with pytest.raises(RevisionConflictError):
            await tk.app.event_loop.run(contribute())
        assert "Hetzner" not in await rows_of(tk, TEAM)

    async def test_erased_scope_is_unknown_and_its_members_keep_their_own(self, tk: threadkeep.Threadkeep):
        await promote(tk)

        await tk.owners.erase(TEAM)

        assert await tk.scopes.list() == []
        assert await rows_of(tk, TEAM) == "[]"
        assert [one.text for one in await tk.memories.list(owner="ana")] == [FACT]
        with pytest.raises(ScopeNotFoundError):
            await tk.recall("Where does staging run?", owner="ana", read_scopes=[TEAM])
