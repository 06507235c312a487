"""The extractor that runs LangMem's memory manager over a view of the owner's memories.

LangMem searches, inserts, updates and deletes in a store. The store that it is given here shows what
Learning found to be alike, and records LangMem's changes instead of applying them: there is no second way to write
a memory, the source of each is determined afterwards, and a row of another shape cannot break it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result, SearchItem, SearchOp
from pydantic import BaseModel, ConfigDict, Field, create_model

from threadkeep.capture.extractors import Extraction
from threadkeep.capture.extractors.local import with_episodes
from threadkeep.capture.extractors.structured import Instructions, Meter, metered
from threadkeep.capture.models import Candidate, Turn
from threadkeep.capture.turn_history import off_loop_if
from threadkeep.capture.turns import is_long
from threadkeep.errors import ExtractionError, InvalidInputError, missing_extra
from threadkeep.ids import MemoryId
from threadkeep.memories.codec import SCHEMA_NAMES
from threadkeep.memories.kinds import BUILT_IN_KINDS, Kind, Kinds, MemoryKind
from threadkeep.memories.labels import Metadata
from threadkeep.memories.models import Memory, Source
from threadkeep.models.base import INPUT_ROLES
from threadkeep.models.helper_models import HelperModel

QUERY_LIMIT: Final = 20
"""LangMem asks ``query_limit // 4`` times and looks at so many memories; below 4 it looks at none and knows nothing."""
ONLY_TALKED: Final = "the extraction model called nothing and only talked"
"""The words of such an answer do not tell whether nothing is worth keeping, or the answer is garbage."""
_PLACE: Final = ("memories", "owner")
"""The view has one owner, so the name says nothing; a user's id would be read as a template where it has braces."""


class SemanticMemory(BaseModel):
    """A lasting fact about the user, their team or their systems; call this once for each new fact."""

    model_config = ConfigDict(extra="forbid")

    content: str = Field(description="One short sentence that stands on its own, in the user's own words.")


class EpisodicMemory(BaseModel):
    """What happened in this session; call this at most once."""

    model_config = ConfigDict(extra="forbid")

    content: str = Field(description="One short sentence: what the user asked or told.")


class ProceduralMemory(BaseModel):
    """How the user wants the assistant to behave; call this once for each such wish."""

    model_config = ConfigDict(extra="forbid")

    content: str = Field(description="One short sentence, in the user's own words.")


SCHEMAS: Final[tuple[type[BaseModel], ...]] = (SemanticMemory, EpisodicMemory, ProceduralMemory)


def schemas_of(kinds: Kinds) -> tuple[type[BaseModel], ...]:
    """Return the schemas of LangMem's memories: one for each kind, which has the name of an application's kind."""
    return (*SCHEMAS, *(_schema(one, kinds.fields.get(one.name)) for one in kinds.own))


def _schema(kind: MemoryKind, fields: type[BaseModel] | None) -> type[BaseModel]:
    more: dict[str, Any] = {}
    if fields is not None:
        more["fields"] = (fields, Field(description="What the application wants to know of the fact."))
    return create_model(kind.name, __base__=SemanticMemory, __doc__=kind.description, **more)


class Written(NamedTuple):
    """A statement that LangMem would write.

    Attributes:
        kind: Its kind.
        text: What it says.
        metadata: The fields of its kind.
    """

    kind: Kind
    text: str
    metadata: Metadata


class MemoriesInView(BaseStore):
    """Shows memories in LangMem's shape and records what would be written.

    Attributes:
        written: Statement by key; ``None`` where a key would be removed.
        faults: How many writes could not be understood.
    """

    def __init__(self, known: Sequence[Memory], kinds: Kinds = BUILT_IN_KINDS) -> None:
        self._known = {str(memory.memory_id): memory for memory in known}
        self._kinds = kinds
        self._schemas = {**SCHEMA_NAMES, **{one.name: one.name for one in kinds.own}}
        self.written: dict[str, Written | None] = {}
        self.faults = 0

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer reads from the memories in view, and write down writes."""
        return [self._answer(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what :meth:`batch` does."""
        return self.batch(ops)

    def _answer(self, op: Op) -> Result:
        match op:
            case SearchOp(limit=limit, offset=offset):
                return [self._item(key, place) for place, key in enumerate(self._known)][offset : offset + limit]
            case GetOp(key=key):
                return self._item(key, 0) if key in self._known else None
            case PutOp(key=key, value=value):
                self._write(key, value)
                return None
            case _:
                return []

    def _item(self, key: str, place: int) -> SearchItem:
        memory = self._known[key]
        content: dict[str, Any] = {"content": memory.text}
        if (fields := self._kinds.fields.get(memory.kind)) is not None:
            content["fields"] = {name: memory.metadata.get(name) for name in fields.model_fields}
        value = {"kind": self._schemas.get(memory.kind, SCHEMA_NAMES["semantic"]), "content": content}
        # Best first: what is alike comes ranked, and LangMem sorts by score.
        return SearchItem(_PLACE, key, value, memory.created_at, memory.updated_at, score=1 / (1 + place))

    def _write(self, key: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.written[key] = None
            return
        schema, content = str(value.get("kind")), value.get("content")
        kind = next((one for one, name in self._schemas.items() if name == schema), None)
        held: Mapping[str, Any] = cast("Mapping[str, Any]", content) if isinstance(content, Mapping) else {}
        text = held.get("content")
        if kind is None or not isinstance(text, str) or not text.strip():
            self.faults += 1
            return
        try:
            metadata = self._kinds.check_metadata(kind, cast("Metadata", held.get("fields") or {}))
        except InvalidInputError:
            self.faults += 1
            return
        self.written[key] = Written(kind, text, metadata)


class LangMemExtractor:
    """What LangMem's ``create_memory_store_manager`` would insert, update and delete.

    Args:
        model: The helper model; it has to call tools.
        instructions: What it is told.
        timeout: How long a turn may take.
        deletes: Whether LangMem may ask for removals; they are proposed, never done.
        kinds: The kinds of memories.
    """

    name: str = "langmem"
    uses_known: bool = True

    def __init__(
        self,
        model: HelperModel,
        instructions: Instructions,
        *,
        timeout: timedelta,
        deletes: bool = False,
        kinds: Kinds = BUILT_IN_KINDS,
    ) -> None:
        self._langmem = imported()
        self._model = model
        self._instructions = instructions
        self._timeout = timeout
        self._deletes = deletes
        self._kinds = kinds
        self._schemas = schemas_of(kinds)

    async def aclose(self) -> None:
        """Close the model's HTTP client."""
        await self._model.aclose()

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        """Return what LangMem would write of *turn*.

        Raises:
            ExtractionError: The model or LangMem failed, took too long, or gave nothing that can be used.
        """
        view = MemoriesInView(known[:QUERY_LIMIT], self._kinds)

        def manager(model: BaseChatModel) -> Runnable[Any, Any]:
            return self._langmem.manager(
                model,
                schemas=list(self._schemas),
                instructions=self._instructions.text,
                enable_inserts=True,
                enable_deletes=self._deletes,
                query_limit=QUERY_LIMIT,
                namespace=_PLACE,
                store=view,
            )

        async def managed(config: RunnableConfig, meter: Meter) -> tuple[str, ...]:
            try:
                await self._model.ask({"messages": _to_messages(turn), "max_steps": 1}, config, shapes=(manager,))
            except self._langmem.configuration_error as error:  # it is no Exception: it would take the worker with it
                msg = 'LangMem could not be set up for this turn; check its version: pip install "threadkeep[langmem]"'
                raise ExtractionError(msg) from error
            asked_again = meter.usage(model=self._model.name, prompt="").calls > 1
            if view.faults or meter.faults or (asked_again and not view.written):
                # LangMem asks up to three times where a model's arguments do not fit, and then says nothing.
                msg = "The extraction model's answer fits no schema of LangMem; choose another FACT_EXTRACTION_MODEL."
                raise ExtractionError(msg)
            return (ONLY_TALKED,) if meter.words and not view.written else ()

        remarks, usage = await metered(
            managed, model=self._model.name, prompt=self._instructions.name, timeout=self._timeout
        )
        candidates, removals = _read(view, turn, {memory.memory_id for memory in known})
        return Extraction(await off_loop_if(is_long(turn), with_episodes, candidates, turn), removals, usage, remarks)


class LangMem(NamedTuple):
    """What is used of LangMem: how its manager is made, and the error that is no ``Exception``."""

    manager: Callable[..., Runnable[Any, Any]]
    configuration_error: type[BaseException]


def imported() -> LangMem:
    """Import LangMem without the deprecation warnings of its own imports.

    Raises:
        SettingsError: It is not installed; the message says how to install it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from langmem import create_memory_store_manager  # pyright: ignore[reportUnknownVariableType]
            from langmem.errors import ConfigurationError
        except ImportError as error:
            variable = "THREADKEEP_EXTRACTOR"
            raise missing_extra(variable, extra="langmem", variable=variable, reason=error) from error
    return LangMem(cast("Callable[..., Runnable[Any, Any]]", create_memory_store_manager), ConfigurationError)


def _to_messages(turn: Turn) -> list[HumanMessage | AIMessage]:
    return [
        HumanMessage(message.text) if message.role in INPUT_ROLES else AIMessage(message.text)
        for message in turn.messages
        if message.role == "assistant" or message.role in INPUT_ROLES
    ]


def _read(view: MemoriesInView, turn: Turn, known: set[MemoryId]) -> tuple[list[Candidate], tuple[MemoryId, ...]]:
    candidates: list[Candidate] = []
    removals: list[MemoryId] = []
    for place, (key, written) in enumerate(view.written.items()):
        memory_id = MemoryId(key)
        if written is None:
            removals += [memory_id] if memory_id in known else []
            continue
        at = turn.at + timedelta(microseconds=place)
        source = Source("assistant", turn.thread_id, None, turn.turn_id, at)
        target = memory_id if memory_id in known else None
        candidates.append(Candidate(written.text, written.kind, source, target=target, metadata=written.metadata))
    return candidates, tuple(removals)
