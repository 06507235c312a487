-- The full truth of a SQLite storage, version 3.
-- Texts are JSON in ASCII, moments microseconds since 1970, durations microseconds.

-- One row.
-- epoch: of every partition that was never erased.
-- erased_at: when rows were last erased; NULL: the file was rewritten since.
CREATE TABLE birth (
    epoch TEXT NOT NULL,
    erased_at INTEGER
);

-- digest: SHA-256 of the key prefix and the partition's digest; it leads every key.
-- kind, parts: the spelling; NULL once it was erased.
-- floor: the change log tells everything after this sequence; logged: its rows.
CREATE TABLE partitions (
    digest BLOB NOT NULL PRIMARY KEY,
    key_prefix TEXT NOT NULL,
    kind TEXT,
    parts TEXT,
    epoch TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    floor INTEGER NOT NULL,
    logged INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE items (
    item INTEGER PRIMARY KEY,
    partition BLOB NOT NULL,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    paths TEXT NOT NULL,
    model TEXT,
    dims INTEGER,
    embedding BLOB,
    ttl INTEGER,
    expires_at INTEGER,
    due_kind TEXT,
    due_at INTEGER,
    data BLOB
);

CREATE UNIQUE INDEX items_by_place ON items (partition, namespace, key);
CREATE INDEX items_in_order ON items (partition, updated_at, revision, namespace, key);
CREATE INDEX items_searchable ON items (partition, revision) WHERE paths <> '[]';
CREATE INDEX items_due ON items (due_kind, due_at, namespace, key) WHERE due_kind IS NOT NULL;
CREATE INDEX items_expiring ON items (expires_at) WHERE expires_at IS NOT NULL;

-- What ceased to be searchable, and when.
CREATE TABLE removals (
    partition BLOB NOT NULL,
    revision INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (partition, revision, namespace, key)
) WITHOUT ROWID;
