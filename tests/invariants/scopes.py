"""What two users do with teams and agents: each has one of either kind, and both share a team where the tenant is one.

Of what a scope of one's own holds, the other sees nothing; of the team that both share, each sees what both have said.
Who is erased is gone from every scope, with every word, and the other's words stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import threadkeep
from threadkeep.errors import InvalidInputError, OwnerMismatchError, RoleRequiredError
from threadkeep.identity import Owner, OwnerKind

KINDS: Final[tuple[OwnerKind, ...]] = ("team", "agent")
NAMES: Final = (("ana", "user1"), ("ops", "Ops"), ("a.b", "a_b"), ("ops", "ops 1"), ("ops 1", "ops 10"))
"""Names of scopes of one tenant, as alike as they can be."""

COMMON: Final = "everybody"

whose = st.sampled_from((0, 1))
kinds = st.sampled_from(KINDS)


class SharedScopes(RuleBasedStateMachine):
    """The steps of two users with shared scopes; a part of :class:`~tests.invariants.tenants.Tenants`."""

    tk: ClassVar[threadkeep.Threadkeep]
    owners: list[Owner]
    doors: list[threadkeep.Threadkeep]
    memories: list[dict[str, str]]

    def begin_scopes(self, run_id: int, names: tuple[str, str]) -> None:
        """Give each user a team and an agent that only they are in, and both the team of their tenant."""
        self.scopes = [
            {kind: Owner(f"{run_id}{name}", owner.tenant, kind) for kind in KINDS}
            for owner, name in zip(self.owners, names, strict=True)
        ]
        self.common = [Owner(f"{run_id}{COMMON}", owner.tenant, "team") for owner in self.owners]
        self.shared: list[dict[str, set[str]]] = [{kind: set() for kind in KINDS} for _ in self.owners]
        self.in_common: list[set[str]] = [set(), set()]
        for who in (0, 1):
            self.join(who)

    def join(self, who: int) -> None:
        """Make a user a member of their scopes."""
        for scope in (self.common[who], *self.scopes[who].values()):
            self.tk.sync.scopes.create(scope)
            self.tk.sync.scopes.grant(scope, self.owners[who], role="review")

    def leave(self, who: int) -> None:
        """Expect nothing of a user who was erased; and let them begin again."""
        self.shared[who] = {kind: set() for kind in KINDS}
        self.in_common[who].clear()
        for scope in (self.common[who], *self.scopes[who].values()):
            words = [one.text for one in self.tk.sync.memories.list(owner=scope, limit=1000)]
            words += [one.text for one in self.tk.sync.proposals.list(owner=scope, state=None, limit=1000)]
            words += [one.text or "" for one in self.tk.sync.proposals.tombstones(owner=scope)]
            if self._signed(who, words):
                self._leak(who, f"{scope.kind} {scope.user_id} still says what an erased user has said")
        self.join(who)

    @rule(who=whose, kind=kinds, how=st.sampled_from(("promote", "propose", "reject")))
    def contribute(self, who: int, kind: OwnerKind, how: str) -> None:
        """Propose to a scope of one's own, and decide."""
        scope, door = self.scopes[who][kind], self.doors[who].sync
        text = self._text(who, "stores the spare key in box")
        if how == "promote":
            kept = door.memories.remember(text)
            self.memories[who][kept.memory_id] = text
            proposed = door.scopes.promote(scope, kept.memory_id)
        else:
            proposed = door.scopes.propose(scope, text)
        if proposed.proposal is None:
            self._leak(who, f"scopes.{how} met a statement of the other's")
        elif how == "reject":
            door.scopes.reject(scope, proposed.proposal.proposal_id)
        else:
            door.scopes.approve(scope, proposed.proposal.proposal_id)
            self.shared[who][kind].add(text)
        self._step(who, f"scopes.{how}", proposed)

    @rule(who=whose, kind=kinds)
    def list_scope(self, who: int, kind: OwnerKind) -> None:
        """See what a scope of one's own holds, and nothing of the user or agent of the same name."""
        found = self.doors[who].sync.scopes.memories(self.scopes[who][kind], limit=1000)
        self._same(who, "scopes.memories", {memory.text for memory in found}, self.shared[who][kind])
        proposals = self.doors[who].sync.scopes.proposals(self.scopes[who][kind], state=None, limit=1000)
        self._step(who, "scopes.memories", [*found, *proposals])

    @rule(who=whose, of=whose)
    def recall_with_scopes(self, who: int, of: int) -> None:
        """Read one's own memory and scopes, in one's own words or in the other's."""
        found = self.doors[who].sync.recall(
            f"Where does {self.signs[of]} store the spare key?", read_scopes=tuple(self.scopes[who].values())
        )
        mine = set(self.memories[who].values()).union(*self.shared[who].values())
        if unknown := [one.text for one in found.memories if one.text not in mine and "note in drawer" not in one.text]:
            self._leak(who, f"recall with scopes found {unknown[0]!r}")
        self._step(who, "recall with scopes", found.text)

    @rule(who=whose, kind=kinds, what=st.sampled_from(("memories", "search", "propose", "proposals", "recall", "key")))
    def try_the_others_scope(self, who: int, kind: OwnerKind, what: str) -> None:
        """Name a scope of the other's: as one who is no member, and as one of another tenant."""
        scope, door = self.scopes[1 - who][kind], self.doors[who].sync
        calls: dict[str, Callable[[], Any]] = {
            "memories": lambda: door.scopes.memories(scope),
            "search": lambda: door.scopes.search(scope, "spare key"),
            "propose": lambda: door.scopes.propose(scope, self._text(who, "takes over box")),
            "proposals": lambda: door.scopes.proposals(scope),
            "recall": lambda: door.recall("spare key", read_scopes=[self.owners[1 - who]]),
            "key": lambda: door.memories.list(owner=scope),
        }
        try:
            calls[what]()
        except (RoleRequiredError, OwnerMismatchError, InvalidInputError):
            pass
        else:
            self._leak(who, f"scopes.{what} let a stranger in")
        if scope.tenant != self.owners[who].tenant:
            try:
                door.recall("spare key", read_scopes=[scope])
            except InvalidInputError:
                pass
            else:
                self._leak(who, "recall read a scope of another tenant")
        self._step(who, f"scopes.{what}", None)

    @rule(who=whose, what=st.sampled_from(("create", "list", "members", "grant", "revoke")))
    def manage_from_a_locked_door(self, who: int, what: str) -> None:
        """What only the application may do."""
        scope, scopes = self.scopes[1 - who]["team"], self.doors[who].sync.scopes
        calls: dict[str, Callable[[], Any]] = {
            "create": lambda: scopes.create(scope),
            "list": lambda: scopes.list(tenant=scope.tenant),
            "members": lambda: scopes.members(scope),
            "grant": lambda: scopes.grant(scope, self.owners[who], role="review"),
            "revoke": lambda: scopes.revoke(scope, self.owners[1 - who]),
        }
        try:
            calls[what]()
        except OwnerMismatchError:
            pass
        else:
            self._leak(who, f"a locked door managed scopes ({what})")
        self._step(who, f"scopes.{what}", None)

    @rule(who=whose)
    def contribute_in_common(self, who: int) -> None:
        """Say something to the team that both are in, where they are of one tenant."""
        text = self._text(who, "guards the door of house")
        proposed = self.doors[who].sync.scopes.propose(self.common[who], text)
        if proposed.proposal is None:
            self._leak(who, "the common team met a statement of another")
        else:
            self.doors[who].sync.scopes.approve(self.common[who], proposed.proposal.proposal_id)
            self.in_common[who].add(text)
        self._step(who, "scopes.propose", proposed)

    @rule(who=whose)
    def read_in_common(self, who: int) -> None:
        """See what both have said there, each under their own name; and nothing of another tenant's team."""
        found = self.doors[who].sync.scopes.memories(self.common[who], limit=1000)
        one_team = self.common[0] == self.common[1]
        expected = self.in_common[0] | self.in_common[1] if one_team else self.in_common[who]
        self._same(who, "the common team", {memory.text for memory in found}, expected)
        authors = {owner.label: sign for owner, sign in zip(self.owners, self.signs, strict=True)}
        for memory in found:
            if any(authors.get(source.author or "", "?") not in memory.text for source in memory.sources):
                self._leak(who, "a statement of the common team names another author")
        self._step(who, "the common team", [one for one in found if not one_team])

    @rule(who=whose, kind=kinds, how=st.sampled_from(("promote", "propose", "reject")), sure=st.integers(0, 3))
    def contribute_and_be_erased(self, who: int, kind: OwnerKind, how: str, sure: int) -> None:
        """Leave words in two scopes, and be erased; now and then."""
        if sure == 0:
            self.contribute(who, kind, how)
            self.contribute_in_common(who)
            self.erase(who, 0)

    # What the machine of all steps has.

    def erase(self, who: int, sure: int) -> None:
        """Remove everything of a user."""
        raise NotImplementedError

    signs: ClassVar[tuple[str, str]]

    def _signed(self, who: int, texts: list[str]) -> bool:
        return any(self.signs[who] in text for text in texts)

    def _text(self, who: int, says: str) -> str:
        raise NotImplementedError

    def _step(self, who: int, what: str, found: object) -> None:
        raise NotImplementedError

    def _same(self, who: int, what: str, found: object, mine: object) -> None:
        raise NotImplementedError

    def _leak(self, who: int, what: str) -> None:
        raise NotImplementedError
