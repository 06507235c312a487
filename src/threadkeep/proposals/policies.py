"""What must not be learnt: an owner's policy, and tombstones of rejected and forgotten statements.

A rejected statement is kept with its vector, a forgotten one as a keyed digest.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.ids import short_digest
from threadkeep.memories.audited_writer import USER, AuditedWriter
from threadkeep.memories.codec import cosine
from threadkeep.memories.kinds import BUILT_IN_NAMES, Kind
from threadkeep.memories.models import ASKED, SAID, Source, sentences_in, without_sentences
from threadkeep.proposals.models import (
    DIGEST_KEY,
    POLICY_KEY,
    PROPOSALS,
    Policy,
    Proposal,
    Rule,
    Tombstone,
    Verdict,
    policy_namespace,
    proposal_of,
    rules_of,
    spelled,
    tombstone_of,
    tombstone_put,
    tombstones_namespace,
)
from threadkeep.storage.interface import (
    Delete,
    Embedding,
    Item,
    Operation,
    Put,
    Ref,
    Storage,
    read_items,
)
from threadkeep.text.facts import clauses
from threadkeep.text.semantics import Gist, agrees, gist_of, normalised, same_meaning, signature

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner
    from threadkeep.memories.audited_writer import AuditedWriter
    from threadkeep.memories.reader import Searcher


class PolicyRepository:
    """The policies of all owners.

    Args:
        storage: Where an owner's own rules are.
        rules: The deployment's.
        audited_writer: Commits with an audit entry.
        kinds: The kinds that new rules may name.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Mapping[Rule, Verdict] | None = None,
        *,
        audited_writer: AuditedWriter,
        kinds: Sequence[Kind] = BUILT_IN_NAMES,
    ) -> None:
        self._storage = storage
        self._audited_writer = audited_writer
        self._rules = rules or {}
        self._kinds = kinds

    @staticmethod
    def ref(owner: Owner) -> Ref:
        """Return where the own rules of *owner* are."""
        return Ref(owner.partition, policy_namespace(owner), POLICY_KEY)

    async def of(self, owner: Owner) -> Policy:
        """Return the rules that hold for *owner*."""
        (item,) = await self._storage.get([self.ref(owner)])
        return self.read(item, owner)

    def read(self, item: Item | None, owner: Owner) -> Policy:
        """Return the rules that hold for *owner*, with this item at :meth:`ref`."""
        return self._with(item.value if item else None, owner)

    async def set(self, rules: str, *, owner: Owner) -> Policy:
        """Give *owner* rules of their own, such as ``assistant=never``; an empty text takes them away.

        Raises:
            InvalidInputError: One sentence that names the rule to correct.
        """
        value = {"rules": spelled(rules_of(rules, self._kinds))}
        epoch = (await self._storage.position(owner.partition)).epoch
        namespace = policy_namespace(owner)
        operation: Operation = Put(namespace, POLICY_KEY, value) if value["rules"] else Delete(namespace, POLICY_KEY)
        await self._audited_writer.commit(owner, [operation], by=USER, epoch=epoch)
        return self._with(value, owner)

    def _with(self, row: Mapping[str, Any] | None, owner: Owner) -> Policy:
        """Add the rules of an owner's *row*; one that cannot be read says nothing."""
        own = row.get("rules") if row else None
        try:
            rules = rules_of(own, None) if isinstance(own, str) else {}
        except InvalidInputError:
            rules = {}
        return Policy(self._rules, rules, owner.kind != "user")


NEAR: Final = 0.9
"""Cosine from which a statement with one word more or less is a rejected one again.
Source: in the paraphrases of ``threadkeep-evals``, statements about other people reach 0.895."""

_DIGEST_CHARACTERS: Final = 24
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Unwanted:
    """An owner's tombstones, read, and the key of their digests."""

    tombstones: tuple[Tombstone, ...] = ()
    secret: bytes = b""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.tombstones)

    def blocks(self, text: str, embedding: Embedding | None = None) -> Tombstone | None:
        """Return the tombstone that *text* says again, if it does.

        Args:
            text: The statement, or an episode, which says what one of its sentences says.
            embedding: Its vector; without one, only what has the very same words is found.
        """
        if not self.tombstones:
            return None
        if text.startswith((ASKED, SAID)):
            parts = (part for sentence in sentences_in(text) for part in (sentence, *clauses(sentence)))
            return next((one for part in parts if (one := self.blocks(part)) is not None), None)
        gist = gist_of(text)
        digests = self._digests(text)
        return next((one for one in self.tombstones if _says_again(one, text, gist, digests, embedding)), None)

    def cut(self, passage: str) -> str:
        """Return an episode without the sentences that say a tombstone again; empty if nothing is left."""
        return without_sentences(passage, lambda part: self.blocks(part) is not None) if self.tombstones else passage

    def lifted_by(self, statements: Iterable[tuple[str, Embedding | None]]) -> tuple[Tombstone, ...]:
        """Return the tombstones that *statements*, each with its vector, say again."""
        given = tuple(statements)
        return tuple(
            one
            for one in self.tombstones
            if any(Unwanted((one,), self.secret).blocks(text, embedding) for text, embedding in given)
        )

    def without(self, tombstones: Collection[Tombstone]) -> Unwanted:
        """Return the rest."""
        gone = {one.tombstone_id for one in tombstones}
        return Unwanted(tuple([one for one in self.tombstones if one.tombstone_id not in gone]), self.secret)

    def _digests(self, text: str) -> frozenset[str]:
        return digests_of(text, self.secret) if any(one.text is None for one in self.tombstones) else frozenset()


def digests_of(text: str, secret: bytes) -> frozenset[str]:
    """Return what is kept of a forgotten statement: a keyed digest of each of its terms."""
    terms = signature(text) or {normalised(text)}
    return frozenset(
        hmac.digest(secret, term.encode("utf-8", "surrogatepass"), "sha256").hex()[:_DIGEST_CHARACTERS]
        for term in terms
    )


def _says_again(
    tombstone: Tombstone, text: str, gist: Gist, digests: frozenset[str], embedding: Embedding | None
) -> bool:
    if tombstone.text is None:
        return bool(digests) and tombstone.digests == digests
    if normalised(tombstone.text) == normalised(text):
        return True
    rejected = gist_of(tombstone.text)
    if same_meaning(rejected, gist):
        return True
    more, less = set(gist.words) - set(rejected.words), set(rejected.words) - set(gist.words)
    if len(more) + len(less) != 1 or not agrees(rejected, gist):
        return False
    return cosine(tombstone.embedding, embedding) >= NEAR


class Tombstones:
    """The tombstones of all owners.

    Operations that a method returns are committed by the caller, together with what they belong to.
    """

    def __init__(
        self,
        storage: Storage,
        searcher: Searcher,
        clock: Clock,
        *,
        lifetime: timedelta | None,
        audited_writer: AuditedWriter,
    ) -> None:
        self._storage = storage
        self._audited_writer = audited_writer
        self._searcher = searcher
        self._clock = clock
        self._lifetime = lifetime

    async def of(self, owner: Owner) -> Unwanted:
        """Read the tombstones of *owner*."""
        items = await read_items(self._storage, owner.partition, prefix=tombstones_namespace(owner))
        return Unwanted(
            tuple(one for item in items if (one := tombstone_of(item)) is not None),
            _secret_of(items),
        )

    async def list(self, *, owner: Owner) -> list[Tombstone]:
        """Return what is not learnt again, newest first."""
        found = (await self.of(owner)).tombstones
        return sorted(found, key=lambda one: (one.at, one.tombstone_id), reverse=True)

    async def lift(self, tombstone_id: str, *, owner: Owner) -> bool:
        """Let a statement be learnt again; return whether there was such a tombstone."""
        epoch = (await self._storage.position(owner.partition)).epoch
        if all(one.tombstone_id != tombstone_id for one in (await self.of(owner)).tombstones):
            return False
        await self._audited_writer.commit(
            owner, [Delete(tombstones_namespace(owner), tombstone_id)], by=USER, epoch=epoch
        )
        return True

    async def rejecting(
        self, owner: Owner, text: str, *, by: str, sources: Sequence[Source] = ()
    ) -> Sequence[Operation]:
        """Return what keeps a rejected statement from being learnt again; its text stays visible to its owner."""
        now = self._clock.now()
        embedding = await self._searcher.embed_memories([text])
        key = short_digest("rejected", normalised(text))
        authors = frozenset(source.author for source in sources if source.author is not None)
        expiry = self._expiry(now)
        tombstone = Tombstone(key, "rejected", text, now, by, expiry, embedding=embedding, authors=authors)
        return [tombstone_put(tombstone, owner, now=now)]

    async def forgetting(
        self, owner: Owner, statements: Sequence[str], *, memory_ids: Collection[str] = ()
    ) -> Sequence[Operation]:
        """Return what keeps forgotten *statements* from being learnt again, and removes where they still wait.

        Nothing of their text stays: keyed digests of their terms do. Proposals and tombstones that say
        one of them go, and proposals about one of *memory_ids*, which are gone.
        """
        now = self._clock.now()
        prefixes = (tombstones_namespace(owner), (PROPOSALS, owner.label))
        items, proposals = await asyncio.gather(
            *[read_items(self._storage, owner.partition, prefix=prefix) for prefix in prefixes]
        )
        operations: list[Operation] = []
        secret = _secret_of(items)
        if not secret:
            secret = secrets.token_bytes(_SECRET_BYTES)
            value = {"secret": secret.hex()}
            operations.append(Put(tombstones_namespace(owner), DIGEST_KEY, value, expect="absent"))
        for digests in dict.fromkeys(digests_of(text, secret) for text in statements):
            key = short_digest("erased", *sorted(digests))
            tombstone = Tombstone(key, "erased", None, now, "user", self._expiry(now), digests)
            operations.append(tombstone_put(tombstone, owner, now=now))
        gists = [gist_of(text) for text in statements]
        operations += [
            Delete(item.ref.namespace, item.ref.key)
            for item in items
            if (one := tombstone_of(item)) is not None and one.text is not None and _says_one(one.text, gists)
        ]
        for item in proposals:
            proposal = proposal_of(item)
            if (
                proposal is None
                or (proposal.state == "pending" and proposal.memory_id in memory_ids)
                or any(_says_one(text, gists) for text in _texts_of(proposal))
            ):
                operations.append(Delete(item.ref.namespace, item.ref.key))
        return operations

    async def lifting(self, owner: Owner, statement: str) -> Sequence[Operation]:
        """Return the operations that lift the tombstones of *statement*: the user wants it kept."""
        unwanted = await self.of(owner)
        if not unwanted:
            return ()
        embedding = await self._searcher.embed_memories([statement])
        return lifting_operations(owner, unwanted.lifted_by([(statement, embedding)]))

    async def refusal(self, owner: Owner) -> Callable[[str, Embedding | None], str | None]:
        """Return a function that returns why a statement, with its vector, must not be learnt again, or None."""
        unwanted = await self.of(owner)

        def reason(text: str, embedding: Embedding | None) -> str | None:
            blocked = unwanted.blocks(text, embedding)
            return f"{blocked.cause} before" if blocked else None

        return reason

    def _expiry(self, now: datetime) -> datetime | None:
        return now + self._lifetime if self._lifetime else None


def lifting_operations(owner: Owner, tombstones: Iterable[Tombstone]) -> list[Operation]:
    """Return the operations that lift *tombstones*."""
    return [Delete(tombstones_namespace(owner), one.tombstone_id) for one in tombstones]


def _secret_of(items: Sequence[Item]) -> bytes:
    secret = next((item.value.get("secret") for item in items if item.ref.key == DIGEST_KEY), None)
    return bytes.fromhex(secret) if isinstance(secret, str) else b""


def _texts_of(proposal: Proposal) -> list[str]:
    texts = (proposal.text, proposal.base_text, proposal.decision.text if proposal.decision else None)
    return [text for text in texts if text]


def _says_one(text: str, gists: Sequence[Gist]) -> bool:
    said = gist_of(text)
    return any(same_meaning(said, gist) for gist in gists)
