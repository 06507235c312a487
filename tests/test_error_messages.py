"""Every error with a cause and its message: what is wrong, which value or setting, and what to do."""

from __future__ import annotations

import asyncio
import re
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import httpx
import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.memory import InMemoryStore

import threadkeep
import threadkeep.errors
from tests.checkpoints.checkpoints import echo_graph
from tests.checkpoints.test_fence import Gates, gated, said
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.world import GatewayWorld
from threadkeep import functions
from threadkeep.clock import SystemClock
from threadkeep.concurrency import MAX_WAITING, PriorityGate
from threadkeep.errors import RestartingError, RunNotFoundError, ScopeRequiredError, ThreadkeepError
from threadkeep.fact_extraction import create_fact_extractor
from threadkeep.identity import Owner
from threadkeep.langgraph.operations import InvalidNamespaceError
from threadkeep.models.helper_models import reranker
from threadkeep.search.vectors import stale
from threadkeep.search.vectorstores.faiss import FaissEngine
from threadkeep.settings import Settings
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.interface import Batch, Put
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing import ScriptedModel
from threadkeep.transfer.copying import Moving

ANA: Final = "ana@x.org"
BOB: Final = "bob@x.org"
TEAM: Final = threadkeep.Owner("platform", kind="team")


class World(NamedTuple):
    """Where a cause happens.

    Attributes:
        tk: A memory in RAM, of Ana.
        folder: Of this test alone.
        patch: Sets variables until the test ends.
        fixture: Returns a fixture by its name.
    """

    tk: threadkeep.Threadkeep
    folder: Path
    patch: pytest.MonkeyPatch
    fixture: Callable[[str], Any]

    @property
    def file(self) -> Path:
        return self.folder / "memory.db"

    def opened(self, url: str | None = None, **options: Any) -> threadkeep.Threadkeep:
        """Return a memory in the test's file."""
        options.setdefault("embedder", "none")
        return threadkeep.open(url or f"sqlite:///{self.file}", owner=ANA, **options)


Cause: TypeAlias = Callable[[World], Awaitable[object]]
TABLE: Final[list[Any]] = []


def case(kind: type[ThreadkeepError], message: str) -> Callable[[Cause], Cause]:
    """Add a row: the decorated cause raises *kind* with *message*, in which … stands for anything."""

    def add(cause: Cause) -> Cause:
        TABLE.append(pytest.param(cause, kind, message, id=cause.__name__))
        return cause

    return add


@case(
    threadkeep.errors.SettingsError,
    "'mysql' is not a known storage; give sqlite:///file.db, postgresql://host/database, redis://host, "
    "mongodb://host or memory://.",
)
async def an_unknown_storage(world: World) -> None:
    world.opened("mysql://localhost/db")


@case(
    threadkeep.errors.SettingsError,
    "THREADKEEP_RECALL_TIMEOUT_MS cannot be '-1'. Timeout of recall in a turn, in milliseconds, a whole number.",
)
async def a_setting_out_of_range(world: World) -> None:
    world.patch.setenv("THREADKEEP_RECALL_TIMEOUT_MS", "-1")
    world.opened()


@case(threadkeep.errors.InvalidInputError, "The text is empty; pass the statement to remember.")
async def an_empty_memory(world: World) -> None:
    await world.tk.memories.remember(" ")


@case(threadkeep.errors.InvalidInputError, "The user id is empty; pass the id that your application uses for the user.")
async def an_empty_user_id(world: World) -> None:
    await world.tk.memories.list(owner="")


@case(threadkeep.errors.InvalidInputError, "The text of the document is empty; pass its content.")
async def a_document_without_text(world: World) -> None:
    await world.tk.collections.ingest("handbook", "", document_id="a.md")


@case(
    threadkeep.errors.TooLargeError,
    "The text has 49,999 characters; a memory is a short statement of at most 8,000. Split it into statements.",
)
async def a_memory_of_a_book(world: World) -> None:
    await world.tk.memories.remember("word " * 10_000)


@case(
    threadkeep.errors.ContextTooLargeError,
    "What has to be sent takes more than the model's 1,000 tokens: the user message at position 0 "
    "alone 5,004, system prompt and tools 0. Shorten it, or choose a model that takes more.",
)
async def a_message_beyond_the_window(world: World) -> None:
    functions.trim_messages_if_needed([HumanMessage("word " * 5_000)], max_tokens=1_000)


@case(threadkeep.errors.ThreadNotFoundError, "The thread was not found among the owner's threads; list the threads.")
async def a_thread_that_never_was(world: World) -> None:
    await world.tk.threads.require("t1")


@case(
    InvalidNamespaceError,
    "The namespace label 'a.b' holds a period; use threadkeep's label() for ids such as e-mail addresses.",
)
async def a_namespace_with_a_period(world: World) -> None:
    await world.tk.store.aput(("a.b",), "key", {})


@case(threadkeep.errors.OwnerRequiredError, "owner is required: pass owner=, or open the memory with one.")
async def no_owner(world: World) -> None:
    async with threadkeep.open("memory://", embedder="none") as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.OwnerConflictError,
    "configurable.user_id and configurable.langgraph_user_id name different owners; give the owner "
    "once, or the same one everywhere.",
)
async def two_owners_in_one_run(world: World) -> None:
    async with threadkeep.open("memory://", embedder="none", model=ScriptedModel()) as tk:
        config = tk.config(user_id=ANA, thread_id="t", langgraph_user_id="bob")
        await echo_graph(tk.checkpointer).ainvoke(said("one"), config)


@case(
    threadkeep.errors.OwnerMismatchError,
    "This client is locked to another owner; use one of for_owner() with that owner.",
)
async def another_owner_of_a_locked_client(world: World) -> None:
    await world.tk.for_owner(ANA).memories.list(owner=BOB)


@case(threadkeep.errors.OwnerMismatchError, "This thread belongs to another owner; use a thread id of your own.")
async def a_thread_of_another_owner(world: World) -> None:
    async with threadkeep.open("memory://", embedder="none", model=ScriptedModel()) as tk:
        for owner in (ANA, BOB):
            await tk.graph().ainvoke({"messages": [HumanMessage("Hello")]}, tk.config(user_id=owner, thread_id="t"))


@case(
    threadkeep.errors.OptedOutError,
    "The owner has opted out of memory; tk.owners.opt_out(owner, out=False) opts in again.",
)
async def an_owner_who_opted_out(world: World) -> None:
    await world.tk.owners.opt_out()
    await world.tk.memories.remember("I have two cats.")


@case(
    threadkeep.errors.RoleRequiredError,
    "The role review in team 'platform' is required; ask the application to grant it.",
)
async def a_user_who_may_not_review(world: World) -> None:
    await world.tk.scopes.create(TEAM)
    await world.tk.scopes.grant(TEAM, ANA, role="propose")
    await world.tk.scopes.proposals(TEAM, owner=ANA)


@case(
    threadkeep.errors.ScopeNotFoundError,
    "The team 'platform' was not found; create it by tk.scopes.create() or threadkeep scopes create.",
)
async def a_scope_that_never_was(world: World) -> None:
    await world.tk.recall("Where does staging run?", read_scopes=[TEAM])


@case(
    threadkeep.errors.MemoryNotFoundError,
    "Memory 'm1' of this owner was not found; list the memories.",
)
async def a_memory_that_never_was(world: World) -> None:
    await world.tk.memories.require("m1")


@case(
    threadkeep.errors.SlotNotFoundError,
    "The profile has no slot 'shoe'; its slots are name, role, team, stack, location, timezone, language, style, diet, "
    "allergies, needs, household, travel.",
)
async def a_slot_that_no_schema_has(world: World) -> None:
    await world.tk.profile.clear("shoe")


@case(
    threadkeep.errors.ProposalNotFoundError,
    "Proposal 'p1' of this owner was not found; list the proposals.",
)
async def a_proposal_that_never_was(world: World) -> None:
    await world.tk.proposals.approve("p1", by="carla")


@case(
    threadkeep.errors.DocumentNotFoundError,
    "The document was not found in the collection; list the documents of the collection.",
)
async def a_document_that_never_was(world: World) -> None:
    await world.tk.collections.delete("handbook", "a.md")


@case(
    threadkeep.errors.CollectionNotFoundError,
    "The collection 'handbok' was not found: it has no documents. List the names of the collections.",
)
async def a_collection_that_never_was(world: World) -> None:
    await world.tk.collections.search("handbok", "leave")


@case(threadkeep.errors.FileUnreadableError, "A file cannot be read: it is damaged or too complex.")
async def a_damaged_file(world: World) -> None:
    await world.tk.collections.ingest_file("handbook", b"%PDF-1.7 damaged", document_id="a.pdf")


@case(
    threadkeep.errors.FileTypeUnsupportedError,
    "A file is of a type that is not read here (binary); convert it to PDF, HTML or text.",
)
async def a_picture(world: World) -> None:
    await world.tk.collections.ingest_file("handbook", b"\x89PNG\x00", document_id="a.png")


@case(
    threadkeep.errors.ApprovalRequiredError,
    "How to behave is always asked: it waits for approval; propose it by tk.proposals.propose(), or "
    "name who approved it.",
)
async def a_rule_of_an_assistant(world: World) -> None:
    kept = await world.tk.memories.remember("Never ask back.", kind="procedural", approved_by="carla")
    await world.tk.memories.correct(kept.memory_id, "Always ask back.")


@case(
    threadkeep.errors.RevisionConflictError, "Memory … was changed by another writer; read it again and decide again."
)
async def a_memory_changed_since(world: World) -> None:
    first = (await world.tk.memories.remember("I live in Lisbon.")).memory
    await world.tk.memories.correct(first.memory_id, "I live in Porto.")
    await world.tk.memories.correct(first.memory_id, "I live in Faro.", revision=first.revision)


@case(threadkeep.errors.ProposalDecidedError, "Proposal … was approved by carla on …; the first decision counts.")
async def a_second_decision(world: World) -> None:
    await world.tk.proposals.propose("Ana prefers terse answers.")
    (waiting,) = await world.tk.proposals.list()
    await world.tk.proposals.approve(waiting.proposal_id, by="carla")
    await world.tk.proposals.reject(waiting.proposal_id, by="dora")


@case(
    threadkeep.errors.PartitionErasedError,
    "The partition was erased after this operation began; nothing was written. Do not repeat it.",
)
async def a_batch_that_expects_an_erased_partition(world: World) -> None:
    storage, partition = InMemoryStorage(clock=SystemClock()), world.tk.resolve_owner().partition
    await storage.connect()
    position = await storage.position(partition)
    await storage.erase(partition)
    await storage.commit(Batch(partition, (Put(("a",), "b", {}),), epoch=position.epoch))


@case(
    threadkeep.errors.NothingToResumeError,
    "The job is new and does not wait for an answer; read its state with tk.runs.get().",
)
async def an_answer_for_a_new_job(world: World) -> None:
    await world.tk.runs.resume(echo_graph(world.tk.checkpointer), "yes", thread_id="t")


@case(threadkeep.errors.RunUnfinishedError, "The job is new; answer what it asks, or retry it.")
async def a_result_of_a_new_job(world: World) -> None:
    (await world.tk.runs.get(echo_graph(world.tk.checkpointer), thread_id="t")).require_done()


async def second_input(world: World, strategy: str) -> None:
    """Give a thread an input while a run is at work on it, and await both."""
    gates = Gates()
    graph = gated(world.tk.checkpointer, gates)
    config = world.tk.config(user_id=ANA, thread_id="t", multitask_strategy=strategy)
    running = asyncio.create_task(graph.ainvoke(said("slow one"), config, durability="sync"))
    await gates.arrived("slow one")
    try:
        await graph.ainvoke(said("two"), config)
    finally:
        gates.let_through("slow one")
        await running


@case(threadkeep.errors.ThreadBusyError, "Another run is at work on this thread; wait for it, or try again later.")
async def an_input_while_a_run_is_at_work(world: World) -> None:
    await second_input(world, "reject")


@case(
    threadkeep.errors.ThreadMovedOnError,
    "The lease on this thread has passed to another run, or it was deleted; nothing more of this run "
    "is kept. Give the input again.",
)
async def a_run_that_was_interrupted(world: World) -> None:
    await second_input(world, "interrupt")


@case(
    threadkeep.errors.RunCancelledError,
    "The run was stopped while it waited for its thread; nothing of it was kept.",
)
async def a_run_that_was_stopped_while_it_waited(world: World) -> None:
    view, gates = world.tk.per_run_owner(), Gates()
    graph = gated(view.checkpointer, gates)
    running = asyncio.create_task(graph.ainvoke(said("slow one"), view.config(ANA, thread_id="t")))
    await gates.arrived("slow one")
    waiting = asyncio.create_task(graph.ainvoke(said("two"), view.config(ANA, thread_id="t", run_name="waits")))
    try:
        while not await view.end_run(Owner(ANA), "t", "waits"):
            pass
        await waiting
    finally:
        gates.let_through("slow one")
        await running


@case(threadkeep.errors.ConflictError, "The thread that is to be copied to has checkpoints already; give another id.")
async def a_copy_onto_a_thread(world: World) -> None:
    graph = echo_graph(world.tk.checkpointer)
    for thread_id in ("a", "b"):
        await graph.ainvoke(said("one"), world.tk.config(user_id=ANA, thread_id=thread_id))
    await world.tk.threads.copy("a", "b")


@case(
    threadkeep.errors.StorageUnavailableError,
    "Redis at redis://127.0.0.1:…/0 cannot be reached (Connection refused); see that it runs and "
    "that the URL is right.",
)
async def a_server_that_is_not_there(world: World) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with world.opened(f"redis://127.0.0.1:{port}/0") as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.StorageFullError,
    "The disk that holds …/memory.db is full, or a limit on its size is reached; nothing was written. Free some space.",
)
async def a_full_disk(world: World) -> None:
    storage = SqliteStorage(world.file, clock=SystemClock())
    await storage.connect()
    assert storage._connections
    storage._connections.connection.execute("PRAGMA max_page_count = 20")
    try:
        await storage.commit(Batch(world.tk.resolve_owner().partition, (Put(("a",), "b", {"data": "x" * 500_000}),)))
    finally:
        await storage.close()


@case(
    threadkeep.errors.StorageReadOnlyError,
    "postgresql://… is read-only, a replica or set so; give the URL of the primary, or let it be written to.",
)
async def a_database_that_is_read_only(world: World) -> None:
    url = f"{world.fixture('postgres_url')}?options=-c%20default_transaction_read_only%3Don"
    async with world.opened(url) as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.StorageDeniedError,
    'postgresql://dora@… refused this user (…role "dora" does not exist); correct the URL, or let the user in.',
)
async def a_user_that_the_server_does_not_know(world: World) -> None:
    url = world.fixture("postgres_url").replace("//postgres@", "//dora@")
    async with world.opened(url) as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.StorageVersionError,
    "…/memory.db was written by another version of Threadkeep (its schema is 99, this one's 3). "
    "Upgrade Threadkeep, or choose another path.",
)
async def a_storage_of_a_newer_version(world: World) -> None:
    async with world.opened() as tk:
        await tk.memories.list()
    with closing(sqlite3.connect(world.file)) as raw:
        raw.execute("PRAGMA user_version = 99")
    async with world.opened() as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.NotAStorageError,
    "…/memory.db is not a storage of Threadkeep, or it is damaged; it was not touched. Choose another path.",
)
async def a_text_file(world: World) -> None:
    world.file.write_text("Dear diary")
    async with world.opened() as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.StorageError,
    "The storage at …/memory.db/memory.db cannot be created: Not a directory. Choose another path.",
)
async def a_folder_below_a_file(world: World) -> None:
    world.file.touch()
    async with world.opened(f"sqlite:///{world.file}/memory.db") as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.SealError,
    "The items in …/memory.db are encrypted: set THREADKEEP_MASTER_KEY to their master key.",
)
async def an_encrypted_storage_without_its_key(world: World) -> None:
    world.patch.setenv("THREADKEEP_MASTER_KEY", new_master_key())
    async with world.opened() as tk:
        await tk.memories.remember("I live in Lisbon.")
    world.patch.delenv("THREADKEEP_MASTER_KEY")
    async with world.opened() as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.DamagedItemError,
    "An encrypted item is damaged, or was changed outside Threadkeep. Restore it from a backup, or "
    "remove it with: threadkeep keys check --remove",
)
async def an_encrypted_item_that_was_changed(world: World) -> None:
    world.patch.setenv("THREADKEEP_MASTER_KEY", new_master_key())
    async with world.opened() as tk:
        await tk.memories.remember("I live in Lisbon.")
    with closing(sqlite3.connect(world.file)) as raw:
        raw.execute("UPDATE items SET data = zeroblob(length(data))")
        raw.commit()
    async with world.opened() as tk:
        await tk.memories.list()


@case(
    threadkeep.errors.OverloadedError,
    "5,000 calls wait for a connection to the storage; try again later, or add processes.",
)
async def thousands_of_waiting_calls(world: World) -> None:
    gate = PriorityGate(1)
    async with gate.place():
        calls = [asyncio.create_task(gate.settle()) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        try:
            gate.require_capacity()
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


@case(
    threadkeep.errors.VectorEngineError,
    "The FAISS indexes in …/vectors cannot be used (NotADirectoryError); check the folder.",
)
async def an_engine_without_a_folder(world: World) -> None:
    world.file.touch()
    await FaissEngine(world.file / "vectors").connect()


@case(
    threadkeep.errors.EmbedderUnavailableError,
    'No embedding model is in use; run: pip install "threadkeep[local]", or set EMBEDDINGS_PROVIDER.',
)
async def re_embedding_without_an_embedder(world: World) -> None:
    await Moving(InMemoryStorage(clock=SystemClock()), embedder=None, clock=SystemClock()).embed_anew()


@case(
    threadkeep.errors.RerankerUnavailableError,
    "'nothing' is not a reranker; give model, cohere:MODEL, onnx:MODEL, fastembed:MODEL or "
    "sentence-transformers:MODEL.",
)
async def an_unknown_reranker(world: World) -> None:
    reranker("nothing", cohere_key=None, cohere_url=None, chat_model=lambda: None)


@case(
    threadkeep.errors.StaleVectorsError,
    "Stored vectors are of old-model (8 numbers), and the embedder new-model gives others of 16 "
    "numbers: what they belong to is found by words only. Run threadkeep storage re-embed.",
)
async def vectors_of_another_model(world: World) -> None:
    error = stale([("old-model", 8)], "new-model", 16)
    assert error is not None
    raise error


@case(threadkeep.errors.ModelUnavailableError, "LangChain has no model provider nothing; correct THREADKEEP_MODEL.")
async def an_unknown_chat_model(world: World) -> None:
    world.opened(model="nothing:there").graph()


@case(
    threadkeep.errors.CredentialRequiredError,
    "https://mcp.example.org/mcp is not connected for this user: let the user connect it with tk.credentials.begin(…).",
)
async def a_server_that_the_user_has_not_connected(world: World) -> None:
    auth = world.tk.credentials.auth("https://mcp.example.org/mcp", owner=ANA)
    async with httpx.AsyncClient(auth=auth) as client:
        await client.get("https://mcp.example.org/mcp")


@case(threadkeep.errors.AgentUnavailableError, "SLACK_MCP_TOKEN is not set; set it to use the agent.")
async def an_agent_without_its_token(world: World) -> None:
    await world.tk.agents.create("slack", model=ScriptedModel())


@case(
    threadkeep.errors.ExtractionError,
    "The extraction model failed (ValueError); check its key, its limits and its log.",
)
async def an_extraction_model_that_fails(world: World) -> None:
    model = ScriptedModel(replies=[ValueError("no answer")])
    extractor = create_fact_extractor(InMemoryStore(), model=model, settings=Settings.load(extractor="structured"))
    await extractor.extract([HumanMessage("I live in Lisbon.")], user_id=ANA)


@case(threadkeep.errors.ClosedError, "This Threadkeep was closed; open a new one.")
async def a_closed_memory(world: World) -> None:
    tk = world.opened("memory://")
    await tk.aclose()
    await tk.memories.list()


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A memory in RAM and a folder."""
    with threadkeep.open("memory://", owner=ANA, embedder="none", model=ScriptedModel()) as tk:
        yield World(tk, tmp_path, monkeypatch, request.getfixturevalue)


@pytest.mark.parametrize(("cause", "kind", "message"), TABLE)
async def test_an_error_says_what_is_wrong_and_what_to_do(
    world: World, cause: Cause, kind: type[ThreadkeepError], message: str
) -> None:
    """Its class, and the whole message."""
    with pytest.raises(ThreadkeepError) as caught:
        await cause(world)

    assert type(caught.value) is kind
    assert re.fullmatch(".*".join(map(re.escape, message.split("…"))), str(caught.value))


GATEWAY: Final = {
    ScopeRequiredError: "The request needs the scope admin.",
    RunNotFoundError: "There is no run with this id.",
    RestartingError: "The server is stopping; nothing of this turn was kept. Try again in a moment.",
}


async def test_errors_of_the_gateway_say_so_over_http() -> None:
    """A token without a scope, a run that never was, and a process that stops."""
    with (
        OidcProvider() as provider,
        GatewayWorld("memory://", ScriptedModel(), issuers=(provider.origin,), audience=AUDIENCE) as gateway,
    ):
        async with gateway.client(None) as client:
            client.headers.update(provider.headers(scope="chat"))
            refused = [await client.post("/admin/owners/x/suspend"), await client.get("/runs/none")]
            gateway.call(lambda: gateway.runs.drain_soon(0))
            refused.append(await client.post("/chat/stream", json={"message": "Hello"}))

    said = [(problem.json()["code"], problem.json()["detail"]) for problem in refused]
    assert said == [(kind.code, message) for kind, message in GATEWAY.items()]


def test_the_tables_have_a_row_for_every_error() -> None:
    """A new error needs a cause; ThreadkeepError itself is never raised."""
    every = {
        kind
        for kind in vars(threadkeep.errors).values()
        if isinstance(kind, type) and issubclass(kind, ThreadkeepError)
    }

    assert {row.values[1] for row in TABLE} | set(GATEWAY) == (every | {InvalidNamespaceError}) - {ThreadkeepError}
