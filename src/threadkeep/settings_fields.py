"""The settings: one field each, with the environment variables that set it, its default and its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

StoreType = Literal["memory", "sqlite", "redis", "postgres", "mongodb"]
CheckpointType = Literal["memory", "sqlite", "redis", "postgres", "mongodb"]
MultitaskStrategy = Literal["enqueue", "reject", "interrupt", "rollback"]

Milliseconds: TypeAlias = Annotated[int, Field(ge=1, le=3_600_000)]
Minutes: TypeAlias = Annotated[float, Field(ge=0, le=525_600_000, allow_inf_nan=False)]
Days: TypeAlias = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)]


class SettingsFields(BaseSettings):
    """The fields of :class:`threadkeep.settings.Settings`, in the order of the documentation."""

    model_config = SettingsConfigDict(
        frozen=True, env_ignore_empty=True, extra="ignore", case_sensitive=True, validate_default=False
    )

    store_type: StoreType | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_TYPE", "THREADKEEP_STORE_TYPE"),
        description="Where memories are kept: memory, sqlite, redis, postgres or mongodb; unset: sqlite.",
    )
    store_sqlite_path: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_SQLITE_PATH", "THREADKEEP_STORE_SQLITE_PATH"),
        description="The path of the memories' SQLite file; unset: memory.sqlite3 in the data directory.",
    )
    store_redis_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_REDIS_URL", "REDIS_URL", "THREADKEEP_STORE_REDIS_URL"),
        description="URL of Redis, for LANGGRAPH_STORE_TYPE=redis.",
    )
    store_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_POSTGRES_DSN", "POSTGRES_DSN", "THREADKEEP_STORE_POSTGRES_DSN"),
        description="URL of PostgreSQL, for LANGGRAPH_STORE_TYPE=postgres.",
    )
    migration_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_MIGRATION_POSTGRES_DSN",
        description="URL of the tables' owner, for threadkeep migrate; unset: the one of the memories.",
    )
    store_mongodb_uri: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_MONGODB_URI", "MONGODB_URI", "THREADKEEP_STORE_MONGODB_URI"),
        description="URL of MongoDB, for LANGGRAPH_STORE_TYPE=mongodb.",
    )
    store_key_prefix: str = Field(
        default="",
        validation_alias=AliasChoices("LANGGRAPH_STORE_KEY_PREFIX", "THREADKEEP_STORE_KEY_PREFIX"),
        max_length=200,
        description="Prefix of all keys, so that several deployments can share one storage; at most 200 characters.",
    )
    redact: str = Field(
        default="",
        validation_alias="THREADKEEP_REDACT",
        description="Personal data to redact beside secrets: any of email, phone, iban, ip, separated by commas.",
    )
    redact_region: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_REDACT_REGION",
        description="Country of telephone numbers without a +, two letters such as US; unset: those are not redacted.",
    )
    master_key: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_MASTER_KEY",
        description="Key that encrypts every item: 32 bytes in base64; several, with commas, during a rotation.",
    )
    master_key_file: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_MASTER_KEY_FILE",
        description="File with the value of THREADKEEP_MASTER_KEY, one key a line.",
    )
    keys: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_KEYS",
        description="Storage of the owners' wrapped keys: a SQLite file or a URL; unset: the storage of the items.",
    )
    plain_credentials: bool = Field(
        default=False,
        validation_alias="THREADKEEP_PLAIN_CREDENTIALS",
        description="Whether users' tokens for MCP servers may be stored without encryption.",
    )
    erasure_key: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_ERASURE_KEY",
        description="Key of the pseudonyms in receipts: 32 or more characters; unset: a file beside the receipts.",
    )
    erasure_log: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_ERASURE_LOG",
        description="File of the receipts of erasures; unset: beside the SQLite file, else in the data directory.",
    )
    store_ttl_minutes: Minutes = Field(
        default=0,
        validation_alias=AliasChoices("LANGGRAPH_STORE_TTL_MINUTES", "THREADKEEP_STORE_TTL_MINUTES"),
        description="After how many minutes memories expire, a number; 0: never. Pinned ones stay.",
    )
    inactive_days: Days = Field(
        default=0,
        validation_alias="THREADKEEP_INACTIVE_DAYS",
        description="After how many days without use memories are archived, a number; 0: never. Pinned ones stay.",
    )
    reflect_days: Days = Field(
        default=0,
        validation_alias="THREADKEEP_REFLECT_DAYS",
        description="After how many days episodes are summarized in the background, a number; 0: never.",
    )
    max_memories_per_owner: int = Field(
        default=0,
        validation_alias="THREADKEEP_MAX_MEMORIES_PER_OWNER",
        ge=0,
        description="How many active memories an owner has at most, a whole number; 0: any number. Pinned ones stay.",
    )
    store_max_summaries: int = Field(
        default=10,
        validation_alias=AliasChoices("LANGGRAPH_STORE_MAX_SUMMARIES", "THREADKEEP_STORE_MAX_SUMMARIES"),
        ge=0,
        description="Number of summaries in the cross-thread context, a whole number.",
    )
    store_max_memories: int = Field(
        default=50,
        validation_alias=AliasChoices("LANGGRAPH_STORE_MAX_MEMORIES", "THREADKEEP_STORE_MAX_MEMORIES"),
        ge=0,
        description="Number of memories in the cross-thread context, a whole number.",
    )
    embeddings_provider: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "LANGGRAPH_STORE_EMBEDDINGS_PROVIDER", "EMBEDDINGS_PROVIDER", "THREADKEEP_EMBEDDINGS_PROVIDER"
        ),
        description="local, onnx, none, or a LangChain provider such as openai; unset: local where it is installed.",
    )
    embeddings_model: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "LANGGRAPH_STORE_EMBEDDINGS_MODEL", "EMBEDDINGS_MODEL", "THREADKEEP_EMBEDDINGS_MODEL"
        ),
        description="The provider's embedding model, e.g. text-embedding-3-small; local: minilm-l6-v2-int8 or -fp32; "
        "onnx: bge-small-en-v1.5, arctic-embed-s, gte-small, multilingual-e5-small or a folder.",
    )
    embeddings_dims: int | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_STORE_EMBEDDINGS_DIMS", "THREADKEEP_EMBEDDINGS_DIMS"),
        ge=1,
        le=16_384,
        description="Length of the model's vectors, a whole number; unset: known, or read from the first vector.",
    )
    checkpoint_type: CheckpointType | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_CHECKPOINT_TYPE", "THREADKEEP_CHECKPOINT_TYPE"),
        description="Where threads are kept: memory, sqlite, redis, postgres or mongodb; unset: as the memories.",
    )
    checkpoint_sqlite_path: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_CHECKPOINT_SQLITE_PATH", "THREADKEEP_CHECKPOINT_SQLITE_PATH"),
        description="The path of an SQLite file for the threads; unset: the file of the memories.",
    )
    checkpoint_redis_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_CHECKPOINT_REDIS_URL", "THREADKEEP_CHECKPOINT_REDIS_URL"),
        description="URL of the threads' Redis; unset: the one of the memories.",
    )
    checkpoint_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_CHECKPOINT_POSTGRES_DSN", "THREADKEEP_CHECKPOINT_POSTGRES_DSN"),
        description="URL of the threads' PostgreSQL; unset: the one of the memories.",
    )
    checkpoint_mongodb_uri: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("LANGGRAPH_CHECKPOINT_MONGODB_URI", "THREADKEEP_CHECKPOINT_MONGODB_URI"),
        description="URL of the threads' MongoDB; unset: the one of the memories.",
    )
    checkpoint_ttl_minutes: Minutes = Field(
        default=0,
        validation_alias=AliasChoices("LANGGRAPH_CHECKPOINT_TTL_MINUTES", "THREADKEEP_CHECKPOINT_TTL_MINUTES"),
        description="After how many minutes without a run a thread expires, a number; 0: never.",
    )
    checkpoint_key: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_CHECKPOINT_KEY",
        description="Key that encrypts checkpoints: 32 or more characters; after a comma older keys, for reading.",
    )
    allowed_types: str = Field(
        default="",
        validation_alias="THREADKEEP_ALLOWED_TYPES",
        description="Classes that checkpoints may keep besides known ones: module:Name, separated by commas or blanks.",
    )
    checkpoint_timeout_seconds: float = Field(
        default=10,
        validation_alias="THREADKEEP_CHECKPOINT_TIMEOUT_SECONDS",
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Timeout of a checkpoint's write or read, in seconds, a number; then the run fails.",
    )
    multitask_strategy: MultitaskStrategy = Field(
        default="enqueue",
        validation_alias="THREADKEEP_MULTITASK_STRATEGY",
        description="Treatment of an input while a run is in progress: enqueue, reject, interrupt or rollback.",
    )
    lease_seconds: float = Field(
        default=12,
        validation_alias="THREADKEEP_LEASE_SECONDS",
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="How long a lease on a thread lasts after a crash, in seconds, a number.",
    )
    queue_seconds: float = Field(
        default=300,
        validation_alias="THREADKEEP_QUEUE_SECONDS",
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="How long an input waits for the run in progress, in seconds, a number.",
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
        validation_alias=AliasChoices("MAX_CONTEXT_TOKENS", "THREADKEEP_MAX_CONTEXT_TOKENS"),
        ge=1_000,
        description="Upper bound of the window, in tokens, a whole number; less if the model's profile says so.",
    )
    min_messages_to_keep: int = Field(
        default=4,
        validation_alias=AliasChoices("MIN_MESSAGES_TO_KEEP", "THREADKEEP_MIN_MESSAGES_TO_KEEP"),
        ge=1,
        description="How many of the newest messages stay in the window if they fit, a whole number.",
    )
    auto_compression: bool = Field(
        default=True,
        validation_alias=AliasChoices("ENABLE_AUTO_COMPRESSION", "THREADKEEP_ENABLE_AUTO_COMPRESSION"),
        description="true or false: whether a summary replaces older messages when the context is too large.",
    )
    capture: Literal["local", "off"] = Field(
        default="local",
        validation_alias="THREADKEEP_CAPTURE",
        description="Whether memories are extracted from turns: local or off.",
    )
    queue: Literal["embedded", "procrastinate"] = Field(
        default="embedded",
        validation_alias="THREADKEEP_QUEUE",
        description="Queue that wakes the workers: embedded (in the process) or procrastinate (in PostgreSQL).",
    )
    queue_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_QUEUE_POSTGRES_DSN",
        description="URL of procrastinate's PostgreSQL; unset: the one of the memories.",
    )
    capture_workers: int | None = Field(
        default=None,
        validation_alias="THREADKEEP_CAPTURE_WORKERS",
        ge=0,
        le=256,
        description="How many workers a process runs, a whole number; 0: none, threadkeep worker runs them;"
        " unset: 4, or 0 with procrastinate.",
    )
    capture_tries: int = Field(
        default=5,
        validation_alias="THREADKEEP_CAPTURE_TRIES",
        ge=1,
        le=100,
        description="After how many failures a turn is dead and not tried again, a whole number.",
    )
    capture_lease_seconds: float = Field(
        default=10,
        validation_alias="THREADKEEP_CAPTURE_LEASE_SECONDS",
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="How long a worker's lease on a turn lasts without renewal, in seconds, a number.",
    )
    capture_debounce_seconds: float = Field(
        default=0,
        validation_alias="THREADKEEP_CAPTURE_DEBOUNCE_SECONDS",
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="How long a thread must be idle before its turns are processed, in seconds, a number.",
    )
    enable_fact_extraction: bool = Field(
        default=False,
        validation_alias=AliasChoices("ENABLE_FACT_EXTRACTION", "THREADKEEP_ENABLE_FACT_EXTRACTION"),
        description="Only true: a model extracts memories, one call a turn; false: rules on the user's words do.",
    )
    fact_extraction_model: str | None = Field(
        default=None,
        validation_alias=AliasChoices("FACT_EXTRACTION_MODEL", "THREADKEEP_FACT_EXTRACTION_MODEL"),
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
        description="Timeout of the extraction from one turn, in seconds, a number; then it is tried again later.",
    )
    extraction_deletes: bool = Field(
        default=False,
        validation_alias="THREADKEEP_EXTRACTION_DELETES",
        description="true: LangMem may propose to forget memories.",
    )
    extraction_prices: str = Field(
        default="",
        validation_alias="THREADKEEP_EXTRACTION_PRICES",
        description="US dollars for a million input and output tokens of the extracting model, e.g. 0.25,2.00.",
    )
    memory_policy: str = Field(
        default="",
        validation_alias="THREADKEEP_MEMORY_POLICY",
        description="What is remembered, proposed, or never remembered: speaker, kind or both = auto, ask or never,"
        " e.g. tool=never, user.episodic=never.",
    )
    proposal_days: float = Field(
        default=30,
        validation_alias="THREADKEEP_PROPOSAL_DAYS",
        gt=0,
        allow_inf_nan=False,
        le=36_500,
        description="After how many days an undecided proposal expires, a number.",
    )
    tombstone_days: Days = Field(
        default=365,
        validation_alias="THREADKEEP_TOMBSTONE_DAYS",
        description="How many days rejected and forgotten statements are not learnt again, a number; 0: for ever.",
    )
    model: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_MODEL",
        description="The chat model of the command line and of graph.py, as provider:name; unset: an offline stand-in.",
    )
    agents_file: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_AGENTS",
        description="TOML file that declares sub-agents; unset: the shipped GitHub, GitLab, Slack, AWS and Splunk.",
    )
    kinds_file: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_KINDS",
        description="TOML file that declares kinds of memory beside semantic, episodic and procedural; unset: none.",
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
        description="auto: tables are created and migrated at start; check: they must be up to date already.",
    )
    postgres_pool_size: int = Field(
        default=10,
        validation_alias="THREADKEEP_POSTGRES_POOL_SIZE",
        ge=1,
        le=1000,
        description="Size of a process's connection pool to PostgreSQL, a whole number.",
    )
    postgres_wait_ms: Milliseconds = Field(
        default=1000,
        validation_alias="THREADKEEP_POSTGRES_WAIT_MS",
        description="Timeout of waiting for a connection of that pool, in milliseconds, a whole number.",
    )
    postgres_statement_timeout_ms: Milliseconds = Field(
        default=2000,
        validation_alias="THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS",
        description="Timeout of a statement in PostgreSQL, in milliseconds, a whole number.",
    )
    redis_timeout_ms: Milliseconds = Field(
        default=1000,
        validation_alias="THREADKEEP_REDIS_TIMEOUT_MS",
        description="Timeout of a read or a commit in Redis, in milliseconds, a whole number.",
    )
    postgres_partitions: int = Field(
        default=0,
        validation_alias="THREADKEEP_POSTGRES_PARTITIONS",
        ge=0,
        le=1024,
        description="Number of hash partitions of new PostgreSQL tables, a whole number; 0: not partitioned.",
    )
    recall_timeout_ms: Milliseconds = Field(
        default=300,
        validation_alias="THREADKEEP_RECALL_TIMEOUT_MS",
        description="Timeout of recall in a turn, in milliseconds, a whole number.",
    )
    recall_budget_tokens: int = Field(
        default=300,
        validation_alias="THREADKEEP_RECALL_BUDGET_TOKENS",
        ge=1,
        description="Upper bound of the recalled block, in model tokens, a whole number.",
    )
    profile: Literal["auto", "always", "off"] = Field(
        default="auto",
        validation_alias="THREADKEEP_PROFILE",
        description="The profile in the block: auto (what a request needs), always (all slots, every turn) or off.",
    )
    profile_budget_tokens: int = Field(
        default=60,
        validation_alias="THREADKEEP_PROFILE_BUDGET_TOKENS",
        ge=0,
        description="Upper bound of the profile's lines, part of the block's budget, in model tokens, a whole number.",
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
        description="Language of the stemming; auto: the language of each text, detected by its function words.",
    )
    reranker: str | None = Field(
        default=None,
        validation_alias="THREADKEEP_RERANKER",
        description="Reranker of recalled memories: model (the chat model), cohere:MODEL, onnx:MODEL, "
        "fastembed:MODEL or sentence-transformers:MODEL; unset: none.",
    )
    rerank_timeout_ms: Milliseconds = Field(
        default=150,
        validation_alias="THREADKEEP_RERANK_TIMEOUT_MS",
        description="Timeout of the reranker, in milliseconds, a whole number; then recall keeps its order.",
    )
    cohere_key: SecretStr | None = Field(
        default=None,
        validation_alias="COHERE_API_KEY",
        description="API key of Cohere's reranking service.",
    )
    cohere_url: str | None = Field(
        default=None,
        validation_alias="CO_API_URL",
        description="URL of Cohere's service, or of one with its protocol; unset: https://api.cohere.com.",
    )
    index_megabytes: int = Field(
        default=512,
        validation_alias="THREADKEEP_INDEX_MEGABYTES",
        ge=1,
        description="Upper bound of the RAM of search indexes, in megabytes, a whole number.",
    )
    index_precision: Literal["float32", "int8"] = Field(
        default="float32",
        validation_alias="THREADKEEP_INDEX_PRECISION",
        description="Precision of vectors in search indexes: float32, or int8 in a quarter of the RAM.",
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
        description="From how many items on an owner's vectors are searched there, a whole number.",
    )
    vectors_timeout_ms: Milliseconds = Field(
        default=200,
        validation_alias="THREADKEEP_VECTORS_TIMEOUT_MS",
        description="Timeout of a search in the vector store, in milliseconds, a whole number.",
    )
    vectors_postgres_dsn: SecretStr | None = Field(
        default=None,
        validation_alias="THREADKEEP_VECTORS_POSTGRES_DSN",
        description="URL of pgvector's PostgreSQL; unset: the one of the memories.",
    )
    vectors_folder: Path | None = Field(
        default=None,
        validation_alias="THREADKEEP_VECTORS_FOLDER",
        description="Folder of FAISS's indexes; unset: vectors in the data directory.",
    )
    pinecone_key: SecretStr | None = Field(
        default=None,
        validation_alias="PINECONE_API_KEY",
        description="API key of the Pinecone project with the vectors' index.",
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
    metrics_host: str = Field(
        default="127.0.0.1",
        validation_alias="THREADKEEP_METRICS_HOST",
        description="Address at which a gateway or a worker serves /metrics.",
    )
    metrics_port: int | None = Field(
        default=None,
        validation_alias="THREADKEEP_METRICS_PORT",
        ge=1,
        le=65_000,
        description="Port of /metrics; unset: none. Of several processes each takes the first free one from it on.",
    )
    log_format: Literal["text", "json"] = Field(
        default="text",
        validation_alias="THREADKEEP_LOG_FORMAT",
        description="Format of the log of a gateway or a worker: text, or json, one object a line with the trace id.",
    )
    tracing: str = Field(
        default="",
        validation_alias=AliasChoices("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"),
        description="LangSmith's own switch; if true, LangChain sends prompts and replies to LangSmith.",
    )
