"""Everything that the environment can say, read here and nowhere else.

Imported lazily: pydantic-settings alone takes longer than ``import threadkeep`` may.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import platformdirs
from pydantic import AliasChoices, BeforeValidator, Field, PrivateAttr, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from threadkeep.errors import SettingsError

StoreType = Literal["memory", "sqlite", "redis", "postgres", "mongodb"]
MultitaskStrategy = Literal["enqueue", "reject", "interrupt", "rollback"]
CheckpointType = Literal["memory", "sqlite", "redis", "postgres", "mongodb"]


def _no_url(given: object) -> object:
    """Refuse a URL: as a path it would be a file in a folder called ``sqlite:``."""
    if isinstance(given, str) and "://" in given:
        msg = "a path is no URL"
        raise ValueError(msg)
    return given


FilePath: TypeAlias = Annotated[Path, BeforeValidator(_no_url)]

_TRUTHY: Final = frozenset({"1", "true", "yes", "on"})


class Settings(BaseSettings):
    """What was set, with defaults that work for one person on one machine."""

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, extra="ignore", case_sensitive=True)

    _env_file: Path | None = PrivateAttr(default=None)

    store_type: StoreType | None = Field(
        default=None,
        validation_alias="LANGGRAPH_STORE_TYPE",
        description="Where memories are kept: memory, sqlite, redis, postgres or mongodb.",
    )
    store_sqlite_path: FilePath | None = Field(
        default=None,
        validation_alias="LANGGRAPH_STORE_SQLITE_PATH",
        description="The path of the memories' SQLite file; unset: memory.sqlite3 in the data directory.",
    )
    store_redis_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_REDIS_URL", "REDIS_URL"),
        description="Where Redis is, for LANGGRAPH_STORE_TYPE=redis.",
    )
    store_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_POSTGRES_DSN", "POSTGRES_DSN"),
        description="Where PostgreSQL is, for LANGGRAPH_STORE_TYPE=postgres.",
    )
    store_mongodb_uri: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_MONGODB_URI", "MONGODB_URI"),
        description="Where MongoDB is, for LANGGRAPH_STORE_TYPE=mongodb.",
    )
    store_key_prefix: str = Field(
        default="",
        validation_alias="LANGGRAPH_STORE_KEY_PREFIX",
        max_length=200,
        description="Tells deployments that share one storage apart; at most 200 characters.",
    )
    redact: str = Field(
        default="",
        validation_alias="THREADKEEP_REDACT",
        description="Personal data to cut out beside secrets: any of email, phone, iban, ip, parted by commas.",
    )
    redact_region: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_REDACT_REGION",
        description="Where telephone numbers without a + are from, two letters such as US; unset: those stay.",
    )
    master_key: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_MASTER_KEY",
        description="Seals every item: 32 bytes in base64; several, parted by commas, where one replaces another.",
    )
    master_key_file: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_MASTER_KEY_FILE",
        description="A file that holds what THREADKEEP_MASTER_KEY would, one key a line.",
    )
    keys: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_KEYS",
        description="Where the owners' wrapped keys are: a SQLite file or a storage's URL; unset: beside the items.",
    )
    erasure_key: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_ERASURE_KEY",
        description="Names the erased in receipts: 32 or more characters; unset: a file beside THREADKEEP_ERASURE_LOG.",
    )
    erasure_log: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_ERASURE_LOG",
        description="File of the receipts of erasures; unset: beside the SQLite file, else in the data directory.",
    )
    store_ttl_minutes: float = Field(
        default=0,
        validation_alias="LANGGRAPH_STORE_TTL_MINUTES",
        ge=0,
        allow_inf_nan=False,
        le=525_600_000,
        description="After how many minutes memories expire, a number; 0: never. Pinned ones stay.",
    )
    inactive_days: float = Field(
        default=0,
        validation_alias="THREADKEEP_INACTIVE_DAYS",
        ge=0,
        allow_inf_nan=False,
        le=36_500,
        description="After how many days without use memories are archived, a number; 0: never. Pinned ones stay.",
    )
    max_memories_per_owner: int = Field(
        default=0,
        validation_alias="THREADKEEP_MAX_MEMORIES_PER_OWNER",
        ge=0,
        description="How many active memories an owner has at most, a whole number; 0: any. Pinned ones stay.",
    )
    store_max_summaries: int = Field(
        default=10,
        validation_alias="LANGGRAPH_STORE_MAX_SUMMARIES",
        ge=0,
        description="How many summaries the cross-thread context holds, a whole number.",
    )
    store_max_memories: int = Field(
        default=50,
        validation_alias="LANGGRAPH_STORE_MAX_MEMORIES",
        ge=0,
        description="How many memories the cross-thread context holds, a whole number.",
    )
    embeddings_provider: str | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_EMBEDDINGS_PROVIDER", "EMBEDDINGS_PROVIDER"),
        description="local, none, or a LangChain provider such as openai; unset: local where it is installed.",
    )
    embeddings_model: str | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_EMBEDDINGS_MODEL", "EMBEDDINGS_MODEL"),
        description="The provider's embedding model, e.g. text-embedding-3-small; local: minilm-l6-v2-int8 or -fp32.",
    )
    embeddings_dims: int | None = Field(
        default=None,
        validation_alias="LANGGRAPH_STORE_EMBEDDINGS_DIMS",
        ge=1,
        le=16_384,
        description="Length of the model's vectors, a whole number; unset: known or learnt.",
    )
    checkpoint_type: CheckpointType | None = Field(
        default=None,
        validation_alias="LANGGRAPH_CHECKPOINT_TYPE",
        description="Where threads are kept: memory, sqlite, redis, postgres or mongodb; unset: as the memories.",
    )
    checkpoint_sqlite_path: FilePath | None = Field(
        default=None,
        validation_alias="LANGGRAPH_CHECKPOINT_SQLITE_PATH",
        description="The path of the threads' SQLite file; unset: memory-checkpoints.sqlite3 beside the memories.",
    )
    checkpoint_redis_url: SecretStr | None = Field(
        default=None,
        validation_alias="LANGGRAPH_CHECKPOINT_REDIS_URL",
        description="Where the threads' Redis is, with its JSON and Search modules; unset: the memories' one.",
    )
    checkpoint_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias="LANGGRAPH_CHECKPOINT_POSTGRES_DSN",
        description="Where the threads' PostgreSQL is; unset: the memories' one.",
    )
    checkpoint_mongodb_uri: SecretStr | None = Field(
        default=None,
        validation_alias="LANGGRAPH_CHECKPOINT_MONGODB_URI",
        description="Where the threads' MongoDB is; unset: the memories' one.",
    )
    checkpoint_ttl_minutes: float = Field(
        default=0,
        validation_alias="LANGGRAPH_CHECKPOINT_TTL_MINUTES",
        ge=0,
        allow_inf_nan=False,
        le=525_600_000,
        description="After how many minutes checkpoints expire in Redis or MongoDB, a number; 0: never.",
    )
    checkpoint_key: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_CHECKPOINT_KEY",
        description="Encrypts checkpoints: 32 or more characters, and behind a comma older keys that are still read.",
    )
    checkpoint_timeout_seconds: float = Field(
        default=10,
        validation_alias="THREADKEEP_CHECKPOINT_TIMEOUT_SECONDS",
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="How long a checkpoint is waited for before the run fails, in seconds, a number.",
    )
    multitask_strategy: MultitaskStrategy = Field(
        default="enqueue",
        validation_alias="THREADKEEP_MULTITASK_STRATEGY",
        description="What becomes of a second input to a thread at work: enqueue, reject, interrupt or rollback.",
    )
    lease_seconds: float = Field(
        default=12,
        validation_alias="THREADKEEP_LEASE_SECONDS",
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="After how many seconds a thread is free again whose process went down, a number.",
    )
    queue_seconds: float = Field(
        default=300,
        validation_alias="THREADKEEP_QUEUE_SECONDS",
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="How many seconds an input waits for the one before it, a number.",
    )
    langgraph_dev: str = Field(
        default="",
        validation_alias="LANGGRAPH_DEV",
        description="true under a LangGraph server, which brings its own checkpointer.",
    )
    langgraph_api_variant: str = Field(
        default="",
        validation_alias="LANGSMITH_LANGGRAPH_API_VARIANT",
        description="Set by the LangGraph server itself; local_dev under langgraph dev.",
    )
    max_context_tokens: int = Field(
        default=100_000,
        validation_alias="MAX_CONTEXT_TOKENS",
        ge=1_000,
        description="Tokens that the window lets a model read, a whole number; less where the model's profile says so.",
    )
    min_messages_to_keep: int = Field(
        default=4,
        validation_alias="MIN_MESSAGES_TO_KEEP",
        ge=1,
        description="How many of the newest messages the window keeps as far as they fit, a whole number.",
    )
    auto_compression: bool = Field(
        default=True,
        validation_alias="ENABLE_AUTO_COMPRESSION",
        description="true or false: whether older messages give way to a summary when the context grows too large.",
    )
    capture: Literal["local", "off"] = Field(
        default="local",
        validation_alias="THREADKEEP_CAPTURE",
        description="How turns are learnt from: local (no model) or off.",
    )
    queue: Literal["embedded", "procrastinate"] = Field(
        default="embedded",
        validation_alias="THREADKEEP_QUEUE",
        description="Who tells workers that turns wait: embedded (nothing further) or procrastinate (in PostgreSQL).",
    )
    queue_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_QUEUE_POSTGRES_DSN",
        description="Where procrastinate's PostgreSQL is; unset: the memories' one.",
    )
    capture_workers: int | None = Field(
        default=None,
        validation_alias="THREADKEEP_CAPTURE_WORKERS",
        ge=0,
        le=256,
        description="From how many threads a process learns at once, a whole number; 0: threadkeep worker does it;"
        " unset: 4, or 0 with procrastinate.",
    )
    capture_tries: int = Field(
        default=5,
        validation_alias="THREADKEEP_CAPTURE_TRIES",
        ge=1,
        le=100,
        description="After how many failures a turn is kept aside, a whole number.",
    )
    capture_lease_seconds: float = Field(
        default=10,
        validation_alias="THREADKEEP_CAPTURE_LEASE_SECONDS",
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="How long a turn stays with a worker that is not heard of, in seconds, a number.",
    )
    capture_debounce_seconds: float = Field(
        default=0,
        validation_alias="THREADKEEP_CAPTURE_DEBOUNCE_SECONDS",
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="How long a thread has to be quiet before it is learnt from, in seconds, a number.",
    )
    enable_fact_extraction: bool = Field(
        default=False,
        validation_alias="ENABLE_FACT_EXTRACTION",
        description="true: a model extracts what is remembered, one call a turn; false: rules on the user's words do.",
    )
    fact_extraction_model: str | None = Field(
        default=None,
        validation_alias="FACT_EXTRACTION_MODEL",
        description="The extracting model, as provider:name; unset: the model given to open(), else THREADKEEP_MODEL.",
    )
    helper_temperature: float | None = Field(
        default=0,
        validation_alias="THREADKEEP_HELPER_TEMPERATURE",
        ge=0,
        le=2,
        allow_inf_nan=False,
        description="Temperature of calls for extraction, reranking and summaries, a number; left out where the model "
        "refuses it; empty: the model's own.",
    )
    helper_reasoning_effort: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_HELPER_REASONING_EFFORT",
        description="Reasoning effort of those calls, as the provider spells it, e.g. low; unset: the model's own.",
    )
    helper_responses_api: bool | None = Field(
        default=None,
        validation_alias="THREADKEEP_HELPER_RESPONSES_API",
        description="true or false: whether those calls use OpenAI's Responses API; unset: LangChain decides.",
    )
    extractor: Literal["structured", "langmem"] = Field(
        default="structured",
        validation_alias="THREADKEEP_EXTRACTOR",
        description="structured (one call by a strict schema) or langmem (its memory manager; threadkeep[langmem]).",
    )
    extraction_prompt: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_EXTRACTION_PROMPT",
        description="File with your own instructions for the extracting model; unset: those for platform engineering.",
    )
    extraction_timeout_seconds: float = Field(
        default=60,
        validation_alias="THREADKEEP_EXTRACTION_TIMEOUT_SECONDS",
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="How long extracting from a turn may take, in seconds, a number; then it is tried again later.",
    )
    extraction_deletes: bool = Field(
        default=False,
        validation_alias="THREADKEEP_EXTRACTION_DELETES",
        description="true: LangMem may propose that memories are forgotten.",
    )
    extraction_prices: str = Field(
        default="",
        validation_alias="THREADKEEP_EXTRACTION_PRICES",
        description="US dollars for a million tokens read and written by the extracting model, e.g. 0.25,2.00.",
    )
    memory_policy: str = Field(
        default="",
        validation_alias="THREADKEEP_MEMORY_POLICY",
        description="What is kept by itself, asked, or never kept: who, kind or both = auto, ask or never,"
        " e.g. tool=never, user.episodic=never.",
    )
    proposal_days: float = Field(
        default=30,
        validation_alias="THREADKEEP_PROPOSAL_DAYS",
        gt=0,
        allow_inf_nan=False,
        le=36_500,
        description="After how many days a proposal that nobody decided expires, a number.",
    )
    tombstone_days: float = Field(
        default=365,
        validation_alias="THREADKEEP_TOMBSTONE_DAYS",
        ge=0,
        allow_inf_nan=False,
        le=36_500,
        description="How many days what was rejected or forgotten is not learnt again, a number; 0: for ever.",
    )
    model: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_MODEL",
        description="The chat model of the command line and of graph.py, as provider:name; unset: an offline stand-in.",
    )
    agents_file: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_AGENTS",
        description="TOML file that declares sub-agents; unset: GitHub, GitLab, Slack, AWS and Splunk as shipped.",
    )
    data_dir: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_DATA_DIR",
        description="Folder of the SQLite files; unset: the user's data folder.",
    )
    sqlite_synchronous: Literal["FULL", "NORMAL"] = Field(
        default="FULL",
        validation_alias="THREADKEEP_SQLITE_SYNCHRONOUS",
        description="FULL or NORMAL; NORMAL may lose the last commits when the machine loses power.",
    )
    migrate: Literal["auto", "check"] = Field(
        default="auto",
        validation_alias="THREADKEEP_MIGRATE",
        description="auto: a database's tables are made and changed at start; check: they must be as needed already.",
    )
    postgres_pool_size: int = Field(
        default=10,
        validation_alias="THREADKEEP_POSTGRES_POOL_SIZE",
        ge=1,
        le=1000,
        description="How many connections to PostgreSQL a process holds at most, a whole number.",
    )
    postgres_wait_ms: int = Field(
        default=1000,
        validation_alias="THREADKEEP_POSTGRES_WAIT_MS",
        ge=1,
        le=3_600_000,
        description="How long to wait while all those connections are in use, in milliseconds, a whole number.",
    )
    postgres_statement_timeout_ms: int = Field(
        default=2000,
        validation_alias="THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS",
        ge=1,
        le=3_600_000,
        description="How long a turn's statement may take in PostgreSQL, in milliseconds, a whole number.",
    )
    redis_timeout_ms: int = Field(
        default=1000,
        validation_alias="THREADKEEP_REDIS_TIMEOUT_MS",
        ge=1,
        le=3_600_000,
        description="How long a read or a commit may take in Redis, in milliseconds, a whole number.",
    )
    postgres_partitions: int = Field(
        default=0,
        validation_alias="THREADKEEP_POSTGRES_PARTITIONS",
        ge=0,
        le=1024,
        description="Over how many hash partitions new PostgreSQL tables are spread, a whole number; 0: none.",
    )
    recall_timeout_ms: int = Field(
        default=300,
        validation_alias="THREADKEEP_RECALL_TIMEOUT_MS",
        ge=1,
        le=3_600_000,
        description="How long a turn waits for recall, in milliseconds, a whole number.",
    )
    recall_budget_tokens: int = Field(
        default=300,
        validation_alias="THREADKEEP_RECALL_BUDGET_TOKENS",
        ge=1,
        description="Upper bound of the recalled block, in model tokens, a whole number.",
    )
    language: Literal[
        "auto",
        "arabic",
        "danish",
        "dutch",
        "english",
        "finnish",
        "french",
        "german",
        "hungarian",
        "italian",
        "norwegian",
        "portuguese",
        "romanian",
        "russian",
        "spanish",
        "swedish",
    ] = Field(
        default="auto",
        validation_alias="THREADKEEP_LANGUAGE",
        description="What words are stemmed in; auto: each text in the language that its function words are of.",
    )
    reranker: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_RERANKER",
        description="Who orders what recall found once more: model (the chat model), cohere:MODEL, fastembed:MODEL "
        "or sentence-transformers:MODEL; unset: nobody.",
    )
    rerank_timeout_ms: int = Field(
        default=150,
        validation_alias="THREADKEEP_RERANK_TIMEOUT_MS",
        ge=1,
        le=3_600_000,
        description="How long recall waits for the reranker until it keeps its order, in milliseconds, a whole number.",
    )
    cohere_key: SecretStr | None = Field(
        default=None,
        validation_alias="COHERE_API_KEY",
        description="Key of Cohere's reranking service.",
    )
    cohere_url: str | None = Field(
        default=None,
        validation_alias="CO_API_URL",
        description="Where Cohere's service, or one that speaks its protocol, is; unset: https://api.cohere.com.",
    )
    index_megabytes: int = Field(
        default=512,
        validation_alias="THREADKEEP_INDEX_MEGABYTES",
        ge=1,
        description="How much memory the search indexes may take, in megabytes, a whole number.",
    )
    index_precision: Literal["float32", "int8"] = Field(
        default="float32",
        validation_alias="THREADKEEP_INDEX_PRECISION",
        description="How search indexes hold vectors: float32 as they are, int8 in a quarter of the memory.",
    )

    vectors: Literal["exact", "pgvector", "faiss", "pinecone"] = Field(
        default="exact",
        validation_alias="THREADKEEP_VECTORS",
        description="Where vectors of large owners are searched: exact (in RAM), pgvector, faiss or pinecone.",
    )
    vectors_from: int = Field(
        default=20_000,
        validation_alias="THREADKEEP_VECTORS_FROM",
        ge=1,
        description="From how many items on an owner is searched there, a whole number.",
    )
    vectors_timeout_ms: int = Field(
        default=200,
        validation_alias="THREADKEEP_VECTORS_TIMEOUT_MS",
        ge=1,
        le=3_600_000,
        description="How long a search waits for the vector engine, in milliseconds, a whole number.",
    )
    vectors_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_VECTORS_POSTGRES_DSN",
        description="Where pgvector's PostgreSQL is; unset: the memories' one.",
    )
    vectors_folder: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_VECTORS_FOLDER",
        description="Folder of FAISS's indexes; unset: vectors in the data directory.",
    )
    pinecone_key: SecretStr | None = Field(
        default=None,
        validation_alias="PINECONE_API_KEY",
        description="Key of the Pinecone project that the vectors' index is in.",
    )
    pinecone_host: str | None = Field(
        default=None,
        validation_alias="PINECONE_INDEX_HOST",
        description="Host of the index in Pinecone, as its console shows it.",
    )
    trace_content: bool = Field(
        default=False,
        validation_alias="THREADKEEP_TRACE_CONTENT",
        description="true or false: whether OpenTelemetry spans carry the text of recalled memories.",
    )
    tracing: str = Field(
        default="",
        validation_alias=AliasChoices("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"),
        description="LangSmith's own switch; where it is true, LangChain sends prompts and replies there.",
    )

    def __init__(self, **given: Any) -> None:
        if by_field := [name for name in given if name in type(self).model_fields]:
            msg = f"Settings() takes variables, not fields, and would not see {by_field[0]}; use Settings.load()."
            raise SettingsError(msg)
        super().__init__(**given)

    @classmethod
    def load(cls, *, env_file: Path | None = None, **given: Any) -> Settings:
        """Read the environment (and *env_file*, which it overrides); *given* fields win over both.

        Raises:
            SettingsError: One sentence that names the variable, or the file where that cannot be read.
        """
        named = {_variables(field)[0]: value for field, value in given.items() if value is not None}
        try:
            settings = cls(_env_file=env_file, **named)
        except ValidationError as error:
            raise _explained(error) from None
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{env_file} cannot be read ({type(error).__name__}); save it as UTF-8 where this user may read it."
            raise SettingsError(msg) from error
        settings._env_file = env_file
        return settings

    def variable_of(self, field: str, environment: Mapping[str, str] | None = None) -> str:
        """Return the variable that says *field*: the one that is set, else the strongest that can be."""
        return _set_by(field, self.surroundings(environment)) or _variables(field)[0]

    def surroundings(self, environment: Mapping[str, str] | None) -> dict[str, str | None]:
        """Return all variables: those of the file that these settings were read from, and over them *environment*'s."""
        from dotenv import dotenv_values

        environment = os.environ if environment is None else environment
        in_file = dotenv_values(self._env_file) if self._env_file else {}
        return {**in_file, **environment}

    @property
    def ttl(self) -> timedelta | None:
        """After how long memories expire; ``None``: never."""
        return timedelta(minutes=self.store_ttl_minutes) if self.store_ttl_minutes else None

    @property
    def proposal_lifetime(self) -> timedelta:
        """How long a proposal waits."""
        return timedelta(days=self.proposal_days)

    @property
    def tombstone_lifetime(self) -> timedelta | None:
        """How long what was rejected or forgotten is not learnt again; ``None``: for ever."""
        return timedelta(days=self.tombstone_days) if self.tombstone_days else None

    @property
    def checkpoint_ttl(self) -> timedelta | None:
        """After how long checkpoints expire; ``None``: never."""
        return timedelta(minutes=self.checkpoint_ttl_minutes) if self.checkpoint_ttl_minutes else None

    @property
    def checkpoint_timeout(self) -> timedelta:
        """How long a checkpoint is waited for."""
        return timedelta(seconds=self.checkpoint_timeout_seconds)

    @property
    def workers(self) -> int:
        """From how many threads this process learns at once."""
        if self.capture_workers is None:
            return 4 if self.queue == "embedded" else 0
        return self.capture_workers

    @property
    def lease_time(self) -> timedelta:
        """How long a lease on a thread lasts that nobody renews."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def queue_time(self) -> timedelta:
        """How long an input waits for the one before it."""
        return timedelta(seconds=self.queue_seconds)

    @property
    def personal_kinds(self) -> tuple[str, ...]:
        """Which kinds of personal data are cut out."""
        return tuple(dict.fromkeys(self.redact.replace(",", " ").split()))

    @property
    def sealed(self) -> bool:
        """Whether items are sealed."""
        return self.master_key is not None or self.master_key_file is not None

    def master_keys(self) -> tuple[str, str]:
        """Return the master keys as text, and the variable that says them.

        Raises:
            SettingsError: None are set, or both ways, or the file cannot be read.
        """
        variable = "THREADKEEP_MASTER_KEY_FILE"
        if self.master_key is not None and self.master_key_file is not None:
            msg = f"THREADKEEP_MASTER_KEY and {variable} are both set; set one of them."
            raise SettingsError(msg, variable=variable)
        if self.master_key_file is None:
            return self.master_key.get_secret_value() if self.master_key else "", "THREADKEEP_MASTER_KEY"
        try:
            return self.master_key_file.expanduser().read_text("utf-8"), variable
        except (OSError, ValueError) as error:
            msg = f"{variable} names a file that cannot be read ({type(error).__name__}); name one that holds the key."
            raise SettingsError(msg, variable=variable) from error

    @property
    def recall_timeout(self) -> timedelta:
        """How long a turn waits for recall."""
        return timedelta(milliseconds=self.recall_timeout_ms)

    @property
    def under_langgraph_server(self) -> bool:
        """Whether a LangGraph server runs this process and brings checkpointer and store."""
        return self.langgraph_dev.strip().lower() in _TRUTHY or self.langgraph_api_variant == "local_dev"

    @property
    def traced(self) -> bool:
        """Whether LangChain sends prompts and replies to LangSmith."""
        return self.tracing.strip().lower() in _TRUTHY

    @property
    def data_folder(self) -> Path:
        """Folder of the SQLite files."""
        return (self.data_dir or Path(platformdirs.user_data_dir("threadkeep", appauthor=False))).expanduser()

    @property
    def sqlite_path(self) -> Path:
        """The SQLite file of the memories."""
        return (self.store_sqlite_path or self.data_folder / "memory.sqlite3").expanduser()

    @property
    def vectors_path(self) -> Path:
        """The folder of FAISS's indexes."""
        return (self.vectors_folder or self.data_folder / "vectors").expanduser()

    @property
    def erasure_path(self) -> Path | None:
        """The file of the receipts of erasures; ``None``: what is in the process alone needs none."""
        if self.erasure_log is not None:
            return self.erasure_log.expanduser()
        if self.store_type == "memory":
            return None
        if self.store_type in (None, "sqlite"):
            return self.sqlite_path.with_name(f"{self.sqlite_path.stem}-erasures.jsonl")
        return self.data_folder / "erasures.jsonl"

    @property
    def checkpoint_path(self) -> Path:
        """The SQLite file of the threads."""
        beside = self.sqlite_path.with_name(f"{self.sqlite_path.stem}-checkpoints.sqlite3")
        return (self.checkpoint_sqlite_path or beside).expanduser()


@dataclass(frozen=True, slots=True)
class Resolved:
    """One setting as it is in force.

    Attributes:
        variable: The environment variable that sets it, the first of them where there are several.
        value: As text, secrets masked.
        origin: The variable that it came from, or ``default``.
        description: What it means and what it takes.
    """

    variable: str
    value: str
    origin: str
    description: str


def resolved(settings: Settings, environment: Mapping[str, str] | None = None) -> list[Resolved]:
    """Return every setting with its value and where that came from."""
    surroundings = settings.surroundings(environment)
    rows: list[Resolved] = []
    for name, field in Settings.model_fields.items():
        variables = _variables(name)
        value = getattr(settings, name)
        said = _set_by(name, surroundings)
        origin = said or ("given" if name in settings.model_fields_set else "default")
        text = "" if value is None else "********" if isinstance(value, SecretStr) else str(value)
        rows.append(Resolved(variables[0], text, origin, field.description or ""))
    return rows


def keep_onnxruntime_silent() -> None:
    """Have ONNX Runtime send nothing to its maker and write no id of this machine; call it before that is imported.

    From 1.29 on its packages do both unless this variable is set when it starts; its own function comes too late.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def named_variables(names: Iterable[str], environment: Mapping[str, str] | None = None) -> dict[str, SecretStr]:
    """Return those of the environment variables *names* that are set and not empty: credentials that a file names."""
    environment = os.environ if environment is None else environment
    return {name: SecretStr(value) for name in names if (value := environment.get(name))}


def variables() -> list[tuple[str, ...]]:
    """Return the environment variables of every setting, the strongest first."""
    return [_variables(name) for name in Settings.model_fields]


def _variables(field: str) -> tuple[str, ...]:
    alias = Settings.model_fields[field].validation_alias
    return tuple(str(choice) for choice in alias.choices) if isinstance(alias, AliasChoices) else (str(alias),)


def _set_by(field: str, surroundings: Mapping[str, str | None]) -> str | None:
    return next((variable for variable in _variables(field) if surroundings.get(variable)), None)


def _explained(error: ValidationError) -> SettingsError:
    first = error.errors(include_url=False, include_context=False)[0]
    variable = str(first["loc"][0])
    for name, field in Settings.model_fields.items():
        if variable in _variables(name):
            given = "" if field.annotation == SecretStr | None else f" {str(first.get('input'))[:80]!r}"
            msg = f"{variable} cannot be{given}. {field.description}"
            return SettingsError(msg, variable=variable)
    return SettingsError(f"{variable}: {first['msg']}", variable=variable)
