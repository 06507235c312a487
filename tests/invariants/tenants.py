"""Two owners do things by turns, at random: neither ever sees, or loses, a row because of the other.

Their ids are as alike as ids can be, they use the same namespaces, keys and words, and each knows the
other's: every id that one was given is tried by the other. What an owner writes bears a sign of that
owner's, so whatever is read tells whose it is. It goes through the storage itself, through the
doors that are locked to one owner, and in PostgreSQL through raw statements without any WHERE.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

import threadkeep
from tests.invariants.raw_sql import READING, STATEMENTS, RawSql
from tests.invariants.scopes import NAMES, SharedScopes
from threadkeep.errors import MemoryNotFoundError, OwnerMismatchError
from threadkeep.identity import Owner
from threadkeep.ids import new_id
from threadkeep.settings import Settings
from threadkeep.storage.interface import Batch, Delete, Item, Operation, Position, Put, Ref, Storage, Touch
from threadkeep.testing import HashingEmbedder
from threadkeep_conformance.servers import MongoServer, PostgresServer, RedisServer, Server

SIGNS: Final = ("quokka", "wombat")
"""Words that only the first, and only the second of two owners writes."""

ALIKE: Final = [
    (("ana", ""), ("ana", "acme")),
    (("a.b@x.org", ""), ("a_b@x.org", "")),
    (("user1", ""), ("user10", "")),
    (("ana", "b"), ("b", "ana")),
    (("ab", "c"), ("a", "bc")),
    (("Ana", ""), ("ana", "")),
    (("*", ""), ("%", "")),
    (("ana/memories", ""), ("ana", "")),
    (("a\0b", ""), ("a", "")),
    (('ana","x', ""), ("ana", "")),
]
NAMESPACES: Final = (("notes",), ("notes", "a"), ("memories", "a"), (".turns", "a"))
KEYS: Final = ("1", "2", "k")
STEPS: Final = 40
"""So many steps two owners take together, at most; then two others begin."""

AT_ONE_PLACE: Final = 10_000
"""After so many steps everybody moves on, to an empty storage where it is ours: the server for MongoDB's protocol slows
down as it fills."""

PATIENCE_MS: Final = 60_000

_SERVERS: Final[dict[str, type[Server]]] = {
    "postgres": PostgresServer,
    "redis": RedisServer,
    "mongodb": MongoServer,
}
STORAGES: Final = ("memory", "sqlite", *_SERVERS)

whose = st.sampled_from((0, 1))
with_an_id = st.sampled_from(("get", "require", "correct", "forget", "pin", "history"))
layouts = st.sampled_from(("memories", "summaries"))
store_calls = st.sampled_from(("put", "get", "search"))
limits = st.sampled_from((1, 3, 100))
prefixes = st.sampled_from(((), *NAMESPACES))
namespaces = st.sampled_from(NAMESPACES)
keys = st.sampled_from(KEYS)
raw_statements = st.tuples(st.sampled_from(tuple(STATEMENTS)), st.booleans())
changed = st.lists(
    st.tuples(namespaces, keys, st.sampled_from("ppdt")), min_size=1, max_size=4, unique_by=lambda change: change[:2]
)


@dataclass
class Tally:
    """What was tried and found so far.

    Attributes:
        steps: How many steps were taken.
        raw: How many raw statements these took.
        leaks: What one saw of the other, or lost to the other: a sentence each.
    """

    steps: int = 0
    raw: int = 0
    leaks: list[str] = field(default_factory=list[str])


def run(n: int, *, storages: tuple[str, ...] = STORAGES) -> dict[str, Any]:
    """Take *n* steps, shared equally between the *storages*; count what passed between owners."""
    tally = Tally()
    taken: dict[str, int] = {}
    for at, storage in enumerate(storages, 1):
        before, end, turns = tally.steps, n * at // len(storages), itertools.count()
        while tally.steps < end:
            with place(storage) as url:
                walk(url, tally, until=min(end, tally.steps + AT_ONE_PLACE), turns=turns)
        taken[storage] = tally.steps - before
    for leak in tally.leaks[:10]:
        sys.stderr.write(f"tenants: {leak}\n")
    return {"n": tally.steps, "leaks": len(tally.leaks), "storages": len(taken), "raw_statements": tally.raw}


@contextmanager
def place(storage: str) -> Iterator[str]:
    """Give the URL of an empty storage; servers of one's own are named as for the tests."""
    with ExitStack() as stack:
        if storage == "memory":
            yield "memory://"
            return
        if storage == "sqlite":
            folder = Path(tempfile.mkdtemp(prefix="threadkeep-invariants-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            yield f"sqlite:///{folder}/memory.sqlite3"
            return
        given = os.environ.get(f"THREADKEEP_TEST_{storage.upper()}_URL")
        url = given or stack.enter_context(_SERVERS[storage]()).url
        # The test server for MongoDB's protocol would sync for every document.
        yield f"{url}/tenants?journal=false&timeoutMS={PATIENCE_MS}" if storage == "mongodb" else url


def walk(url: str, tally: Tally, *, until: int, turns: Iterator[int] | None = None) -> None:
    """Let pairs of owners take steps at *url* until there are as many as *until* in all; *turns* are the seeds."""
    # How long anything takes is not what is asked here.
    chosen = Settings.load(
        capture="off",
        store_key_prefix=new_id(),
        recall_timeout_ms=PATIENCE_MS,
        postgres_statement_timeout_ms=PATIENCE_MS,
        redis_timeout_ms=PATIENCE_MS,
        sqlite_synchronous="NORMAL",
    )
    with threadkeep.open(url, embedder=HashingEmbedder(), settings=chosen) as tk, ExitStack() as stack:
        tk.sync.ready()
        raw = stack.enter_context(RawSql(url, chosen.store_key_prefix)) if url.startswith("postgres") else None
        for turn in turns or itertools.count():
            if tally.steps >= until:
                return
            machine = type("Pair", (Tenants,), {"tk": tk, "tally": tally, "raw": raw})
            run_state_machine_as_test(
                seed(turn)(machine),
                settings=settings(
                    max_examples=max(1, min(50, (until - tally.steps) // STEPS)),
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )


class Tenants(SharedScopes):
    """Two owners, what each has, and everything that either may try."""

    tk: ClassVar[threadkeep.Threadkeep]
    tally: ClassVar[Tally]
    raw: ClassVar[RawSql | None]
    numbers: ClassVar[Iterator[int]] = itertools.count()
    signs: ClassVar[tuple[str, str]] = SIGNS

    @initialize(pair=st.sampled_from(ALIKE), names=st.sampled_from(NAMES))
    def begin(self, pair: tuple[tuple[str, str], tuple[str, str]], names: tuple[str, str]) -> None:
        """Two that nobody has seen before, with ids that are alike."""
        run_id = next(self.numbers)
        self.owners = [Owner(f"{run_id}{user_id}", tenant) for user_id, tenant in pair]
        self.doors = [self.tk.for_owner(owner) for owner in self.owners]
        self.memories: list[dict[str, str]] = [{}, {}]
        self.rows: list[dict[tuple[tuple[str, ...], str], str]] = [{}, {}]
        self.positions: list[Position | None] = [None, None]
        self.seen: list[list[str]] = [[], []]
        self.begin_scopes(run_id, names)

    # Through the doors that are locked to one owner.

    @rule(who=whose)
    def remember(self, who: int) -> None:
        """Keep a statement."""
        kept = self.doors[who].sync.memories.remember(self._text(who, "keeps a key in drawer"))
        self.memories[who][kept.memory.memory_id] = kept.memory.text
        self.seen[who].append(kept.memory.memory_id)
        self._step(who, "remember", kept)

    @rule(who=whose)
    def list_memories(self, who: int) -> None:
        """See everything of one's own, as one has left it, and nothing else."""
        found = self.doors[who].sync.memories.list(limit=1000)
        self._same(who, "memories.list", {memory.memory_id: memory.text for memory in found}, self.memories[who])
        self._step(who, "memories.list", found)

    @rule(who=whose, of=whose)
    def search_memories(self, who: int, of: int) -> None:
        """Ask in one's own words, or in the other's."""
        found = self.doors[who].sync.memories.search(f"{SIGNS[of]} keeps a key in drawer", limit=20)
        if self.memories[who] and not found:
            self._leak(who, "memories.search found nothing of one's own")
        self._step(who, "memories.search", [recalled.memory for recalled in found])

    @rule(who=whose, of=whose)
    def recall(self, who: int, of: int) -> None:
        """The block that a model would read."""
        found = self.doors[who].sync.recall(f"Where does {SIGNS[of]} keep a key?")
        self._step(who, "recall", (found.text, [recalled.memory for recalled in found.memories]))

    @rule(who=whose, at=st.integers(0, 99))
    def correct(self, who: int, at: int) -> None:
        """Say something else instead."""
        if self.memories[who]:
            memory_id = list(self.memories[who])[at % len(self.memories[who])]
            changed = self.doors[who].sync.memories.correct(memory_id, self._text(who, "moved the key to drawer"))
            del self.memories[who][memory_id]
            self.memories[who][changed.memory_id] = changed.text
            self.seen[who].append(changed.memory_id)
        self._step(who, "correct", None)

    @rule(who=whose, at=st.integers(0, 99))
    def forget(self, who: int, at: int) -> None:
        """Let go of a statement."""
        if self.memories[who]:
            memory_id = list(self.memories[who])[at % len(self.memories[who])]
            self.doors[who].sync.memories.forget(memory_id)
            del self.memories[who][memory_id]
        self._step(who, "forget", None)

    @rule(
        who=whose,
        at=st.integers(0, 99),
        what=st.sampled_from(("get", "require", "correct", "forget", "pin", "history")),
    )
    def try_the_others_id(self, who: int, at: int, what: str) -> None:
        """Name a memory of the other's."""
        theirs = self.seen[1 - who]
        if theirs:
            door = self.doors[who].sync.memories
            arguments = (
                (theirs[at % len(theirs)], self._text(who, "takes over"))
                if what == "correct"
                else (theirs[at % len(theirs)],)
            )
            try:
                found = getattr(door, what)(*arguments)
            except MemoryNotFoundError:
                found = None
            if found is not None:
                self._leak(who, f"memories.{what} took the other's id")
        self._step(who, what, None)

    @rule(who=whose, what=st.sampled_from(("memories", "recall", "owners", "for_owner")))
    def name_the_other(self, who: int, what: str) -> None:
        """Ask a locked door for the other."""
        other, door = self.owners[1 - who], self.doors[who]
        calls: dict[str, Callable[[], Any]] = {
            "memories": lambda: door.sync.memories.list(owner=other),
            "recall": lambda: door.sync.recall(SIGNS[1 - who], owner=other),
            "owners": lambda: door.sync.owners.show(other),
            "for_owner": lambda: door.for_owner(other),
        }
        try:
            calls[what]()
        except OwnerMismatchError:
            pass
        else:
            self._leak(who, f"a locked door let the other in ({what})")
        self._step(who, what, None)

    @rule(
        who=whose,
        of=whose,
        layout=st.sampled_from(("memories", "summaries")),
        what=st.sampled_from(("put", "get", "search")),
    )
    def use_the_store(self, who: int, of: int, layout: str, what: str) -> None:
        """LangGraph's store, in one's own namespace or in the other's."""
        store, namespace = self.doors[who].store, (layout, self.owners[of].label)
        text = self._text(who, "keeps a note in drawer")
        found: Any = None
        try:
            if what == "put":
                store.put(("summaries", self.owners[of].label), "note", {"summary": text})
            elif what == "get":
                found = store.get(namespace, "note")
            else:
                found = store.search(namespace, query="key in drawer", limit=20)
        except OwnerMismatchError:
            if of == who:
                raise
        else:
            if of != who:
                self._leak(who, f"store.{what} let the other in")
        self._step(who, f"store.{what}", found)

    @rule(who=whose)
    def list_the_store(self, who: int) -> None:
        """Its namespaces name nobody else."""
        found = self.doors[who].store.list_namespaces(limit=1000)
        if any(self.owners[1 - who].label in namespace for namespace in found):
            self._leak(who, "store.list_namespaces names the other")
        self._step(who, "store.list_namespaces", None)

    @rule(who=whose)
    def export(self, who: int) -> None:
        """Everything that is held of one."""
        self._step(who, "owners.export", list(self.doors[who].sync.owners.export()))

    @rule(who=whose, sure=st.integers(0, 3))
    def erase(self, who: int, sure: int) -> None:
        """Remove everything of one; now and then."""
        if sure == 0:
            self.doors[who].sync.owners.erase()
            self.memories[who].clear()
            self.rows[who].clear()
            self.leave(who)
        self._step(who, "owners.erase", None)

    # Through the storage itself.

    @rule(who=whose, changes=changed)
    def commit(self, who: int, changes: list[tuple[tuple[str, ...], str, str]]) -> None:
        """Write, remove and touch at places that the other uses as well."""
        operations: list[Operation] = []
        for namespace, key, kind in changes:
            if kind == "p":
                text = self._text(who, "row")
                operations.append(Put(namespace, key, {"data": text}, ("data",)))
                self.rows[who][namespace, key] = text
            elif kind == "d":
                operations.append(Delete(namespace, key))
                self.rows[who].pop((namespace, key), None)
            else:
                operations.append(Touch(namespace, key))
        self._storage(lambda storage: storage.commit(Batch(self.owners[who].partition, operations)))
        self._step(who, "commit", None)

    @rule(who=whose)
    def get_rows(self, who: int) -> None:
        """Every place that either uses."""
        places = [(namespace, key) for namespace in NAMESPACES for key in KEYS]
        partition = self.owners[who].partition
        found = self._storage(lambda storage: storage.get([Ref(partition, *place) for place in places]))
        there = {place: item.value["data"] for place, item in zip(places, found, strict=True) if item}
        self._same(who, "get", there, self.rows[who])
        self._step(who, "get", found)

    @rule(who=whose, of=whose)
    def get_rows_of_both(self, who: int, of: int) -> None:
        """One call for both: each answer is of the owner asked for."""
        asked = [Ref(self.owners[by].partition, NAMESPACES[0], key) for key in KEYS for by in (who, of)]
        found = self._storage(lambda storage: storage.get(asked))
        for ref, item in zip(asked, found, strict=True):
            if item is not None and item.ref != ref:
                self._leak(who, "get answered another question")
        self._step(who, "get", None)

    @rule(who=whose, prefix=prefixes, limit=limits, filtered=st.booleans())
    def scan(self, who: int, prefix: tuple[str, ...], limit: int, *, filtered: bool) -> None:
        """Page by page; with a filter that only the other's rows meet."""
        asked: dict[str, Any] = {"prefix": prefix, "limit": limit}
        if filtered:
            asked["filter"] = {"data": {"$ne": ""}}
        found: list[Item] = []
        after: str | None = None
        while True:
            page = self._storage(lambda s, after=after: s.scan(self.owners[who].partition, after=after, **asked))
            found += page.items
            after = page.after
            if after is None:
                break
        self._step(who, "scan", found)

    @rule(who=whose, of=whose)
    def follow(self, who: int, of: int) -> None:
        """What happened since; since a position of the other's, too."""
        since = self.positions[of]
        changes = self._storage(lambda storage: storage.changes(self.owners[who].partition, since))
        self.positions[who] = changes.position
        self._step(who, "changes", changes.puts)

    @rule(who=whose)
    def scan_with_the_others_place(self, who: int) -> None:
        """Go on from where the other's scan has stopped."""
        theirs = self._storage(lambda storage: storage.scan(self.owners[1 - who].partition, limit=1))
        if theirs.after is not None:
            page = self._storage(lambda s: s.scan(self.owners[who].partition, after=theirs.after))
            self._step(who, "scan", page.items)
        else:
            self._step(who, "scan", None)

    # Past the storage, with the application's login.

    @precondition(lambda self: self.raw is not None)
    @rule(who=whose, asked=st.lists(raw_statements, min_size=1, max_size=8), inside=st.booleans())
    def ask_the_database(self, who: int, asked: list[tuple[str, bool]], *, inside: bool) -> None:
        """Whatever is asked in one's own transaction, or in nobody's: rows of one's own, or none."""
        assert self.raw is not None
        mine, other = self.owners[who].partition, self.owners[1 - who].partition
        met: list[Any] = []
        for what, pretending in asked:
            found = self.raw.ask(
                what, mine=mine if inside else None, other=other, sign=SIGNS[1 - who], pretending=pretending
            )
            met += found.rows
            if found.strangers:
                self._leak(who, f"the raw statement {what!r} met {found.strangers} rows of others")
            if inside and what == "everything" and len(found.rows) < len(self.rows[who]):
                self._leak(who, "a raw statement found too few rows of one's own")
            if found.refused and what in READING:
                self._leak(who, f"the raw statement {what!r} was refused")
        self.tally.raw += len(asked)
        self._step(who, "a raw statement", met)

    def _text(self, who: int, says: str) -> str:
        return f"{SIGNS[who]} {says} {next(self.numbers)}"

    def _storage(self, work: Callable[[Storage], Awaitable[Any]]) -> Any:
        async def on_event_loop(services: Any) -> Any:
            return await work(services.storage)

        return self.tk.app.event_loop.run_sync(self.tk.app.call(on_event_loop))

    def _step(self, who: int, what: str, found: object) -> None:
        """Count a step, and look for the other's sign in what it *found*."""
        self.tally.steps += 1
        if SIGNS[1 - who] in repr(found):
            self._leak(who, f"{what} showed a row of the other's")

    def _same(self, who: int, what: str, found: object, mine: object) -> None:
        """What one has is what one has left there: the other took and added nothing."""
        if found != mine:
            self._leak(who, f"{what} is not what this owner has left")

    def _leak(self, who: int, what: str) -> None:
        self.tally.leaks.append(f"{what} ({self.owners[who]!r} beside {self.owners[1 - who]!r})")
