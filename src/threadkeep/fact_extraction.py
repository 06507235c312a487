"""Fact extraction under the documents' names, over our store and over any other LangGraph store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from threadkeep.capture.extractors import Extraction, Extractor
from threadkeep.capture.learning import judged, learnt
from threadkeep.capture.models import Receipt
from threadkeep.capture.reconcile import Propose, Rules, reconcile, writes
from threadkeep.capture.turns import pending, split
from threadkeep.checkpoints.head import thread_id_from
from threadkeep.clock import SystemClock
from threadkeep.container import Services
from threadkeep.errors import InvalidInputError, OwnerMismatchError, SettingsError
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId
from threadkeep.memories.codec import MEMORIES, memory_of, value_of
from threadkeep.models.base import Message
from threadkeep.models.langchain import plain_messages
from threadkeep.observability import Telemetry
from threadkeep.registry import create_extractor
from threadkeep.settings import Settings
from threadkeep.storage.interface import Item, Ref
from threadkeep.text.redaction import Redact, redact, redactor

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

_KEPT: Final = 32
_ALIKE: Final = 20
_guard: Final = Lock()
_made: Final[OrderedDict[tuple[str, int], tuple[Extractor, Any]]] = OrderedDict()
"""With the model that was given, so that its id is not another's meanwhile."""
telemetry: Final = Telemetry()
"""Counts what the documents' functions went on without, such as ``store_put_memory.degraded``."""


def is_fact_extraction_enabled(settings: Settings | None = None) -> bool:
    """Return whether ENABLE_FACT_EXTRACTION asks for a model extractor."""
    return (settings or Settings.load()).enable_fact_extraction


def create_fact_extractor(store: BaseStore, model: Any = None, settings: Settings | None = None) -> FactExtractor:
    """Return what extracts facts from turns into *store*; LangMem's manager, unless THREADKEEP_EXTRACTOR is set.

    The model is set up once, however many ask for it.

    Args:
        store: Ours, or any LangGraph store.
        model: ``"provider:name"`` or a LangChain model; ``None``: FACT_EXTRACTION_MODEL, else THREADKEEP_MODEL.
        settings: Instead of the environment's.

    Raises:
        SettingsError: There is no model, or LangMem is not installed.
        ModelUnavailableError: The model cannot be made; the message says what is missing.
    """
    settings = settings or Settings.load()
    chosen = (
        "structured" if settings.extractor == "structured" and "extractor" in settings.model_fields_set else "langmem"
    )
    given: dict[str, Any] = {"enable_fact_extraction": True, "extractor": chosen}
    if model is not None:
        given["fact_extraction_model"] = model if isinstance(model, str) else None
    settings = settings.model_copy(update=given)
    key = (f"{chosen} {settings.fact_extraction_model} {settings.extraction_prompt}", id(model))
    with _guard:
        known = _made.get(key)
        extractor = known[0] if known else create_extractor(settings, model)
        if extractor is None:
            msg = "Fact extraction needs a model; set FACT_EXTRACTION_MODEL to provider:name."
            raise SettingsError(msg, variable="FACT_EXTRACTION_MODEL")
        _made[key] = (extractor, model)
        while len(_made) > _KEPT:
            _made.popitem(last=False)
    return FactExtractor(store, extractor, redactor(settings.personal_kinds, region=settings.redact_region))


async def extract_and_store_facts(
    store: BaseStore,
    messages: Sequence[Any],
    user_id: str,
    thread_id: str | None = None,
    model: Any = None,
    settings: Settings | None = None,
) -> Receipt | None:
    """Extract facts from the newest turn of *messages* and keep them; for a background task.

    It never raises: what fails is logged and counted. Nothing is done where extraction is not enabled.

    Returns:
        What became of the turn; ``None`` where extraction is off or failed before the turn was recorded.
    """
    settings = settings or Settings.load()
    if not is_fact_extraction_enabled(settings):
        return None
    try:
        extractor = create_fact_extractor(store, model=model, settings=settings)
        return await extractor.extract(messages, user_id=user_id, thread_id=thread_id)
    except Exception as error:  # noqa: BLE001 - a failure of memory never reaches the run; counted and logged
        telemetry.degraded("fact_extraction", error)
        return None


@dataclass(frozen=True)
class FactExtractor:
    """Extracts facts from turns into one store.

    Attributes:
        store: Where they are kept.
        extractor: What finds them.
        redact: Cuts out what is not to be kept in another store; ours does so itself.
    """

    store: BaseStore
    extractor: Extractor
    redact: Redact = redact

    async def ainvoke(self, input: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Receipt:  # noqa: A002 - LangChain's name for it
        """Extract from ``input["messages"]``, for the user and thread that *config*'s ``configurable`` names."""
        configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
        user_id = configurable.get("user_id")
        if not isinstance(user_id, str):
            msg = "owner is required: pass configurable.user_id in the config."
            raise InvalidInputError(msg)
        return await self.extract(input["messages"], user_id=user_id, thread_id=configurable.get("thread_id"))

    async def extract(self, messages: Sequence[Any], *, user_id: str, thread_id: str | None = None) -> Receipt:
        """Extract from the newest turn of *messages* and keep what is new.

        Over our store, the turn is recorded first, so nothing is lost where the process ends. Over
        another, there is no place for what needs approval: it is left out and counted in the receipt's
        ``degraded``.

        Raises:
            ExtractionError: The model failed; our store tries it again later.
        """
        from threadkeep.langgraph.store import ThreadkeepStore

        owner, plain = Owner(user_id), plain_messages(messages)
        thread = thread_id_from(thread_id) if thread_id else None
        if not isinstance(self.store, ThreadkeepStore):
            return await self._store_in_foreign_store(plain, owner, thread)
        if self.store.locked_to not in (None, owner):
            msg = "This memory is locked to another owner."
            raise OwnerMismatchError(msg)

        async def learned(services: Services) -> Receipt:
            return await services.captures.learn_with(self.extractor, plain, owner=owner, thread_id=thread)

        return await self.store.call(learned)

    async def _store_in_foreign_store(
        self, messages: Sequence[Message], owner: Owner, thread: ThreadId | None
    ) -> Receipt:
        turns = split(messages, thread_id=thread)
        if not turns:
            return Receipt("nothing")
        now = SystemClock().now()
        turn = pending(turns[-1], thread_id=thread, at=now, recalled=(), redact=self.redact).turn
        namespace = (MEMORIES, owner.label)
        said = "\n".join(message.text for message in turn.messages if message.role == "user")
        rows = await self.store.asearch(namespace, query=said, limit=_ALIKE)
        items = [
            Item(Ref(owner.partition, namespace, row.key), dict(row.value), 0, row.created_at, row.updated_at)
            for row in rows
        ]
        known = [memory for item in items if (memory := memory_of(item)) is not None]
        found: Extraction = await self.extractor.extract(turn, known)
        decisions = reconcile(judged(found.candidates, turn, redact=self.redact), known, Rules(namespace, now))
        for memory, _ in writes(decisions, known):
            await self.store.aput(namespace, memory.memory_id, value_of(memory))
        waiting = sum(isinstance(decision, Propose) for decision in decisions)
        return Receipt(
            "done",
            (turn.turn_id,),
            learnt(decisions),
            degraded=("approval",) * bool(waiting),
            usage=(found.usage,) if found.usage else (),
        )
