"""``threadkeep chat`` and ``threadkeep demo``: an agent that remembers, to talk to and to watch."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    DataDir,
    Json,
    Tenant,
    User,
    emit,
    err,
    full_id,
    named,
    open_memory,
    options_of,
    out,
    plain,
    print_json,
    visible,
)
from threadkeep.identity import Owner, owner_of_user
from threadkeep.observability import run_metadata

if TYPE_CHECKING:
    import asyncio

    from langchain_core.runnables import RunnableConfig

    from threadkeep.client import Threadkeep
    from threadkeep.proposals.models import Proposal
    from threadkeep.services import Health

LEARNING_SECONDS: Final = 5.0
"""How long the command waits after a reply to show what was learnt."""

EMPTY_STREAM: Final = "No generations found in stream."
"""LangChain's message about a stream that ends before it begins."""

_REFUSED: Final = (401, 403, 404)
"""What providers answer, by HTTP, to a key or a model that they do not know."""

SILENCE_SECONDS: Final = 10.0
"""A model that is silent for so long is told of; then again whenever its silence has doubled."""


LIKELY_SCORE: Final = 0.5
"""A memory that shares not all words with what is to be forgotten is offered from this score on."""

LISTED: Final = 20
"""How many memories ``/memories`` shows."""

HELP: Final = {
    "/help": "show these commands",
    "/memories [WORDS]": "list what is remembered, or search it",
    "/forget ID or WORDS": "forget a memory, after a question",
    "/thread [ID]": "show the thread, or go on with another one",
    "/new": "begin a new thread",
    "/quit": "leave",
}
_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False}


def chat(
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    thread: Annotated[
        str | None, typer.Option("--thread", "-t", help="Continue this thread; unset: begin a new one.")
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Talk to an agent that remembers; shows what was recalled and learnt. /help lists commands, Ctrl-D leaves."""
    owner = owner_of_user(user, tenant)
    import asyncio

    from threadkeep.errors import ThreadkeepError

    failed = False
    with open_memory(data_dir) as tk:
        conversation = Conversation(tk, owner, thread, json=json)
        conversation.greet(tk.sync.ready())
        with asyncio.Runner() as runner:
            while not conversation.ended and (text := _read(json=json)) is not None:
                if not text.strip():
                    continue
                try:
                    runner.run(conversation.take(text))
                    failed = False
                except KeyboardInterrupt:
                    err.print("\nStopped. What you wrote is kept; write on, or Ctrl-D to leave.")
                except ThreadkeepError as error:
                    failed = True
                    err.print(f"\n{plain(str(error))}", markup=False)
                except Exception as error:  # noqa: BLE001 - whatever the model's package raises ends the turn only
                    failed = True
                    err.print(f"\nThe model {_how(error)}. What you wrote is kept; {_print_advice(error)}.")
    if failed:
        sys.exit(1)


class Conversation:
    """What is typed: turns, commands, and answers to proposed changes of memory.

    Args:
        tk: The memory.
        owner: The owner of the memory.
        thread: The thread to go on with; ``None``: a new one.
        json: Whether each input is answered by one JSON object.

    Attributes:
        ended: Whether the user wants to leave.
    """

    def __init__(self, tk: Threadkeep, owner: Owner, thread: str | None, *, json: bool) -> None:
        from threadkeep.checkpoints.head import thread_id_from
        from threadkeep.models.langchain import OfflineChatModel

        self.ended = False
        self._tk = tk
        self._owner = owner
        self._json = json
        self._thread_id: str = _new_thread() if thread is None else thread_id_from(thread)
        # Compiled before the memory is connected: it is what makes the checkpointer one that is in use.
        self._graph = tk.graph() if tk.has_model else tk.graph(model=OfflineChatModel(notice=""))
        self._questions: list[Proposal] = []

    def greet(self, health: Health) -> None:
        """Print the user, the thread and the storage, and once what is not configured."""
        if self._json:
            return
        names = f"User {named(self._owner)}, thread {plain(self._thread_id)}, {health.storage}."
        self._print(f"{names} /help lists commands.")
        if health.degraded:
            self._print('No embedding model: search is by words only. pip install "threadkeep[local]"')
        if not self._tk.has_model:
            self._print("No model is configured, replies quote memories: set THREADKEEP_MODEL=provider:name.")

    async def take(self, text: str) -> None:
        """Run a command, decide on what was asked, or run a turn."""
        answer = _ANSWERS.get(text.strip().casefold())
        if self._questions and answer is not None:
            await self._decide(approve=answer)
            return
        if self._questions:
            self._print(f"Not decided; threadkeep proposals list {options_of(self._owner)} shows it.")
            self._questions = []
        if text.startswith("/"):
            await self._run_command(*text.strip().partition(" ")[::2])
            return
        from threadkeep.text.requests import kept_part, topic_to_forget
        from threadkeep.text.sentences import sentences

        said = sentences(text)
        for topic in filter(None, map(topic_to_forget, said)):
            self._questions += await self._propose_forgetting(topic)
        if said and not any(map(kept_part, said)):
            self._emit({"thread_id": self._thread_id, "reply": "", "proposed": self._rows()})
        else:
            turn = _ShownTurn(self._tk, self._owner, self._thread_id, json=self._json)
            asked = {question.proposal_id for question in self._questions}
            learnt = await turn.take(self._graph, text)
            self._questions += [question for question in learnt if question.proposal_id not in asked]
            self._emit({**turn.row, "proposed": self._rows()})
        self._ask()

    async def _run_command(self, name: str, argument: str) -> None:
        argument = argument.strip()
        row: dict[str, Any] = {"command": name}
        if name == "/memories":
            row["memories"] = await self._list(argument)
        elif name == "/forget":
            row["proposed"] = await self._forget(argument)
        elif name in ("/thread", "/new"):
            row["thread_id"] = self._switch(name, argument)
        elif name == "/quit":
            self.ended = True
        else:
            row["help"] = HELP
            if name != "/help":
                self._print(f"There is no command {plain(name)}.")
            for command, description in HELP.items():
                self._print(f"{command:<20} {description}")
        self._emit(row)
        self._ask()

    async def _list(self, words: str) -> list[dict[str, str]]:
        if words:
            found = await self._tk.memories.search(words, owner=self._owner, limit=LISTED)
            memories = [recalled.memory for recalled in found]
        else:
            memories = await self._tk.memories.list(owner=self._owner, limit=LISTED)
        for memory in memories:
            self._print(f"{memory.memory_id[:8]}  {plain(memory.text)}")
        if not memories:
            self._print("Nothing matches." if words else f"Nothing is remembered about {named(self._owner)}.")
        elif len(memories) == LISTED:
            self._print(f"These are {LISTED}; threadkeep memories list {options_of(self._owner)} shows all.")
        return [{"memory_id": memory.memory_id, "text": memory.text} for memory in memories]

    async def _forget(self, argument: str) -> list[dict[str, Any]]:
        ids = [memory.memory_id async for memory in self._tk.memories.walk(owner=self._owner)]
        named = full_id(argument, ids, noun="memories")
        if not argument:
            self._print("Write /forget and the id of a memory, or words of it.")
        elif named in ids:
            self._questions += [await self._propose(named)]
        else:
            self._questions += await self._propose_forgetting(argument)
        return self._rows()

    def _switch(self, name: str, thread: str) -> str:
        from threadkeep.checkpoints.head import thread_id_from

        if name == "/new":
            self._thread_id = _new_thread()
        elif thread:
            self._thread_id = thread_id_from(thread)
        self._print(f"Thread {plain(self._thread_id)}")
        return self._thread_id

    async def _propose_forgetting(self, topic: str) -> list[Proposal]:
        """Propose to forget each memory that says *topic*, or else the one most like it."""
        from threadkeep.memories.models import recallable
        from threadkeep.text.semantics import gist_of, same_meaning

        wanted = gist_of(topic)
        found = await self._tk.memories.search(topic, owner=self._owner, limit=LISTED)
        found = [recalled for recalled in found if recallable(recalled.memory)]
        gists = [gist_of(recalled.memory.text) for recalled in found]
        memories = [
            recalled.memory
            for recalled, gist in zip(found, gists, strict=True)
            if same_meaning(gist, wanted) or (wanted.words and set(wanted.words) <= set(gist.words))
        ] or [recalled.memory for recalled in found[:1] if recalled.score >= LIKELY_SCORE]
        if not memories:
            self._print(f"Nothing that is remembered says “{plain(topic)}”; /memories lists all.")
        memories.sort(key=lambda memory: memory.kind == "episodic")  # they go with the statement that they tell of
        return [await self._propose(memory.memory_id) for memory in memories]

    async def _propose(self, memory_id: str) -> Proposal:
        from threadkeep.errors import InvalidInputError

        # Without a source the policy asks: the memory that is meant was only concluded from the user's words.
        reason = "asked for in the chat"
        proposed = await self._tk.proposals.propose(
            action="forget", memory_id=memory_id, owner=self._owner, reason=reason
        )
        if proposed.proposal is None:
            msg = f"Forgetting cannot be proposed: {proposed.reason}."
            raise InvalidInputError(msg)
        return proposed.proposal

    async def _decide(self, *, approve: bool) -> None:
        proposal, *self._questions = self._questions
        decide = self._tk.proposals.approve if approve else self._tk.proposals.reject
        decided = await decide(proposal.proposal_id, owner=self._owner)
        if not approve:
            done = "Not changed."
        elif proposal.action == "forget":
            done = f"Forgotten: {plain(proposal.base_text or '')}"
        else:
            done = f"Remembered: {plain(proposal.text)}"
        self._print(done)
        waiting = [await self._tk.proposals.get(one.proposal_id, owner=self._owner) for one in self._questions]
        self._questions = [one for one in waiting if one is not None and one.state == "pending"]
        self._emit({"decided": {"proposal_id": decided.proposal_id, "state": decided.state}})
        self._ask()

    def _ask(self) -> None:
        if self._questions and not self._json:
            proposal = self._questions[0]
            forget = proposal.action == "forget"
            text = (proposal.base_text if forget else proposal.text) or ""
            out.print(f"{'Forget' if forget else 'Remember'} “{plain(text)}”? y or n", markup=False)

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"proposal_id": one.proposal_id, "action": one.action, "text": one.text or one.base_text}
            for one in self._questions
        ]

    def _emit(self, row: dict[str, Any]) -> None:
        if self._json:
            print_json(row)

    def _print(self, line: str) -> None:
        if not self._json:
            out.print(line, markup=False, style="dim")


def _new_thread() -> str:
    from threadkeep.ids import new_id

    return new_id()[:8]


def _read(*, json: bool) -> str | None:
    """Return the next line, ``None`` at the end; a prompt is shown to people only."""
    interactive = sys.stdin.isatty() and not json
    try:
        if interactive:
            return out.input("[bold]> [/bold]")
        line = sys.stdin.readline()
    except (EOFError, KeyboardInterrupt):
        return None
    return line.rstrip("\n") if line else None


def _how(error: Exception) -> str:
    """Say how the model failed; what its package says may quote what is secret."""
    empty = isinstance(error, ValueError) and str(error) == EMPTY_STREAM
    return "said nothing" if empty else f"failed ({type(error).__name__})"


def _print_advice(error: Exception) -> str:
    """Say what may help: a key that was refused will be refused again."""
    refused = getattr(error, "status_code", None) in _REFUSED
    return "check the model's key and its name" if refused else "try again"


class _ShownTurn:
    """One input and everything that is shown about it."""

    def __init__(self, tk: Threadkeep, owner: Owner, thread_id: str, *, json: bool) -> None:
        self._tk = tk
        self._owner = owner
        self._thread_id = thread_id
        self._json = json
        self._reply = ""
        self._recalled: list[str] = []
        self._turns: list[str] = []
        self._learnt: list[str] = []
        self._degraded: set[str] = set()
        self._silence: asyncio.TimerHandle | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The turn for ``--json``."""
        return {
            "thread_id": self._thread_id,
            "reply": self._reply,
            "recalled": self._recalled,
            "learnt": self._learnt,
            "degraded": sorted(self._degraded),
        }

    async def take(self, graph: Any, text: str) -> list[Proposal]:
        """Run the graph on *text*, show reply, recalled and learnt memories, and return what it proposes to learn."""
        config: RunnableConfig = {
            "metadata": run_metadata(user_id=self._owner.user_id, thread_id=self._thread_id),
            "configurable": {"thread_id": self._thread_id, "langgraph_user_id": self._owner.label},
        }
        stream = graph.astream(
            {"messages": [{"role": "user", "content": text}]},
            config,
            stream_mode=["messages", "custom"],
            durability="sync",
        )
        self._listen()
        try:
            async for mode, event in stream:
                if mode == "custom":
                    await self._note(event)
                elif event[0].type in ("AIMessageChunk", "ai"):  # whole, where the model cannot stream
                    self._say(event[0].text)
                self._listen()
        finally:
            self._stop_listening()
        if not self._reply.strip() and not self._json:
            out.print("The model said nothing.", style="dim", end="")
        if not self._json:
            out.print()
        return await self._settle()

    def _listen(self, silent: float = 0.0) -> None:
        """Tell of the model's silence where nothing comes from now on; *silent* seconds of it are over already."""
        import asyncio

        self._stop_listening()
        more = silent or SILENCE_SECONDS
        self._silence = asyncio.get_running_loop().call_later(more, self._report_silence, silent + more)

    def _stop_listening(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _report_silence(self, seconds: float) -> None:
        err.print(f"\nThe model has not answered for {seconds:.0f} seconds; wait on, or stop it with Ctrl-C.")
        self._listen(seconds)

    async def _note(self, event: dict[str, Any]) -> None:
        self._degraded.update(event.get("degraded", ()))
        if event.get("type") == "captured":
            self._turns += event["turns"]
        if event.get("type") != "recalled":
            return
        for row in event["memories"]:
            memory = await self._tk.memories.get(row["id"], owner=self._owner)
            if memory is None:
                continue
            self._recalled.append(memory.text)
            if not self._json:
                out.print(f"  recalled: {plain(memory.text)}", markup=False, style="dim")

    def _say(self, piece: str) -> None:
        self._reply += piece
        if not self._json:
            out.print(visible(piece, besides="\n\t"), end="", markup=False)

    async def _settle(self) -> list[Proposal]:
        """Wait until the turn is learnt from, print a line for each memory, and return the proposals."""
        if not self._turns:
            return []
        timeout = timedelta(seconds=LEARNING_SECONDS)
        receipt = await self._tk.settle(self._turns, owner=self._owner, timeout=timeout)
        memories = [await self._tk.memories.get(memory_id, owner=self._owner) for memory_id in receipt.memory_ids]
        self._learnt = [memory.text for memory in memories if memory]
        facts = [memory.text for memory in memories if memory and memory.kind != "episodic"]
        for statement in () if self._json else facts or self._learnt:  # an episode repeats the facts of its turn
            out.print(f"  learnt: {plain(statement)}", markup=False, style="dim")
        proposals = [await self._tk.proposals.get(one, owner=self._owner) for one in receipt.proposal_ids]
        return [proposal for proposal in proposals if proposal is not None and proposal.state == "pending"]


DEMO_USER: Final = "ana.maria@example.org"
DEMO_TIMEOUT_MS: Final = 30_000
"""The demo shows what is recalled, not how fast: a busy machine may take longer than a turn would wait."""

DEMO_STATEMENTS: Final = (
    "Hi! I'm Ana and I work as a site reliability engineer in Lisbon.",
    "We deploy with Argo CD to the prod-west cluster, and I prefer short answers with YAML examples.",
    "My daughter Inês is allergic to peanuts.",
)
DEMO_QUESTIONS: Final = (
    ("Which cluster do we deploy to?", "prod-west"),
    ("What should I not cook for my daughter?", "peanuts"),
)


def demo(*, json: Json = False) -> None:
    """Teach an agent something in one thread and ask for it in another: no server, no key, no network."""
    if not json:
        out.print("No model is needed here: an offline stand-in quotes what is remembered.", style="dim")
    with tempfile.TemporaryDirectory(prefix="threadkeep-demo-") as folder:
        taught = _teach(Path(folder), json=json)
        asked = _ask(Path(folder), json=json)
    known = sum(row["known"] for row in asked)
    emit(
        {"user": DEMO_USER, "learnt": taught, "asked": asked, "known": known, "of": len(DEMO_QUESTIONS)},
        [f"\nThe second thread knew {known} of {len(DEMO_QUESTIONS)} things that the first one taught."],
        json=json,
    )
    if known < len(DEMO_QUESTIONS):
        err.print("The demo failed: the second thread did not know what the first one taught.")
        sys.exit(1)


def _teach(folder: Path, *, json: bool) -> list[dict[str, Any]]:
    """Talk in a first thread and close everything; return what was learnt."""
    with _open_demo(folder) as tk:
        graph: Any = tk.graph()
        _print_title("Thread 1: Ana talks about herself", json=json)
        for text in DEMO_STATEMENTS:
            reply = graph.invoke(_input(text), tk.config(user_id=DEMO_USER, thread_id="thread-1"))
            _print_exchange(text, reply["messages"][-1].text, json=json)
    with _open_demo(folder) as tk:
        rows: list[dict[str, Any]] = [
            {
                "memory": memory.text,
                "kind": memory.kind,
                "thread": memory.sources[0].thread_id,
                "message": memory.sources[0].message_id,
                "said_by": memory.sources[0].speaker,
            }
            for memory in tk.sync.memories.list(owner=DEMO_USER)
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
    with _open_demo(folder) as tk:
        graph = tk.graph()
        _print_title("Thread 2: the process was closed and opened again", json=json)
        for question, answer in DEMO_QUESTIONS:
            config = tk.config(user_id=DEMO_USER, thread_id="thread-2")
            found, reply = _stream_turn(tk, graph, question, config)
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
            _print_exchange(question, reply, json=json)
    return asked


def _stream_turn(tk: Threadkeep, graph: Any, question: str, config: Any) -> tuple[list[dict[str, Any]], str]:
    found: list[dict[str, Any]] = []
    reply = ""
    for mode, event in graph.stream(_input(question), config, stream_mode=["values", "custom"]):
        if mode == "values":
            reply = event["messages"][-1].text
        elif event["type"] == "recalled":
            for row in event["memories"]:
                memory = tk.sync.memories.require(row["id"], owner=DEMO_USER)
                thread = memory.sources[0].thread_id
                found.append({"memory": memory.text, "thread": thread, "score": row["score"]})
    return [row for row in found if row["thread"] == "thread-1"], reply


def _open_demo(folder: Path) -> Threadkeep:
    """Open memories and threads in *folder*, with the stand-in model, whatever the environment says."""
    import threadkeep
    from threadkeep.models.langchain import OfflineChatModel
    from threadkeep.settings import Settings

    settings = Settings.load(
        store_type="sqlite",
        data_dir=folder,
        store_sqlite_path=folder / "memory.sqlite3",
        checkpoint_type="sqlite",
        checkpoint_sqlite_path=folder / "memory.sqlite3",
        recall_timeout_ms=DEMO_TIMEOUT_MS,
    )
    tk = threadkeep.open(settings=settings, model=OfflineChatModel(notice=""))
    tk.sync.ready()
    return tk


def _input(text: str) -> dict[str, Sequence[dict[str, str]]]:
    return {"messages": [{"role": "user", "content": text}]}


def _print_title(text: str, *, json: bool) -> None:
    if not json:
        out.print(f"\n{text}", style="bold")


def _print_exchange(text: str, reply: str, *, json: bool) -> None:
    if not json:
        out.print(f"  Ana:   {text}", markup=False)
        out.print(f"  Agent: {reply}", markup=False)
