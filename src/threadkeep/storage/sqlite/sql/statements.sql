-- Statements of SqliteStorage. :prefix is the key prefix, :now microseconds since 1970.

-- name: birth
SELECT epoch, erased_at FROM birth

-- name: bear
INSERT INTO birth (epoch) VALUES (:epoch)

-- name: erased_at
SELECT erased_at FROM birth

-- name: note_erasure
UPDATE birth SET erased_at = :now

-- name: note_rewrite
UPDATE birth SET erased_at = NULL WHERE erased_at = :erased_at

-- name: position
SELECT epoch, sequence FROM partitions WHERE digest = ?

-- name: partition
SELECT epoch, sequence, floor, logged FROM partitions WHERE digest = ?

-- name: write_partition
INSERT INTO partitions (digest, key_prefix, kind, parts, epoch, sequence, floor, logged)
VALUES (:digest, :prefix, :kind, :parts, :epoch, :sequence, :floor, :logged)
ON CONFLICT (digest) DO UPDATE SET
    kind = excluded.kind,
    parts = excluded.parts,
    epoch = excluded.epoch,
    sequence = excluded.sequence,
    floor = excluded.floor,
    logged = excluded.logged

-- name: states
SELECT revision, created_at, ttl, expires_at, paths
FROM items WHERE partition = ? AND namespace = ? AND key = ?

-- name: put
INSERT INTO items (
    partition, namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (partition, namespace, key) DO UPDATE SET
    value = excluded.value,
    revision = excluded.revision,
    created_at = excluded.created_at,
    updated_at = excluded.updated_at,
    paths = excluded.paths,
    model = excluded.model,
    dims = excluded.dims,
    embedding = excluded.embedding,
    ttl = excluded.ttl,
    expires_at = excluded.expires_at,
    due_kind = excluded.due_kind,
    due_at = excluded.due_at,
    data = excluded.data

-- name: touch
UPDATE items SET revision = ?, expires_at = ? WHERE partition = ? AND namespace = ? AND key = ?

-- name: delete
DELETE FROM items WHERE partition = ? AND namespace = ? AND key = ?

-- name: log
INSERT INTO removals (partition, revision, namespace, key) VALUES (?, ?, ?, ?)

-- The newest revision that no longer fits the log, where there is one.
-- name: log_floor
SELECT revision FROM removals WHERE partition = ? ORDER BY revision DESC LIMIT 1 OFFSET ?

-- name: trim_log
DELETE FROM removals WHERE partition = ? AND revision <= ?

-- name: removed
SELECT DISTINCT namespace, key FROM removals WHERE partition = ? AND revision > ?

-- name: get
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM items
WHERE partition = ? AND namespace = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)

-- name: searchable
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM items INDEXED BY items_searchable
WHERE partition = ? AND revision > ? AND paths <> '[]'
ORDER BY revision

-- name: scan_newest
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM items INDEXED BY items_in_order
WHERE partition = :digest
    AND (updated_at, revision, namespace, key) < (:updated_at, :revision, :namespace, :key)
    AND namespace BETWEEN :first AND :last
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY updated_at DESC, revision DESC, namespace DESC, key DESC
LIMIT :limit

-- name: scan_oldest
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM items INDEXED BY items_in_order
WHERE partition = :digest
    AND (updated_at, revision, namespace, key) > (:updated_at, :revision, :namespace, :key)
    AND namespace BETWEEN :first AND :last
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY updated_at, revision, namespace, key
LIMIT :limit

-- Jumps from one namespace of a partition to the next, so that it costs as many steps as there are
-- namespaces, however many items they hold.
-- name: namespaces
WITH RECURSIVE places (partition, namespace) AS (
    SELECT digest, (SELECT min(i.namespace) FROM items AS i WHERE i.partition = digest)
    FROM partitions WHERE key_prefix = :prefix AND kind IS NOT NULL
    UNION ALL
    SELECT
        partition,
        (SELECT min(i.namespace) FROM items AS i
         WHERE i.partition = places.partition AND i.namespace > places.namespace)
    FROM places WHERE namespace IS NOT NULL
)
SELECT DISTINCT namespace FROM places
WHERE namespace IS NOT NULL AND EXISTS (
    SELECT 1 FROM items AS i
    WHERE i.partition = places.partition AND i.namespace = places.namespace
        AND (i.expires_at IS NULL OR i.expires_at > :now)
)

-- name: partitions
SELECT kind, parts FROM partitions
WHERE key_prefix = :prefix AND kind IS NOT NULL AND digest > :after
ORDER BY digest
LIMIT :limit

-- name: due
SELECT
    kind, parts, namespace, items.key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM items INDEXED BY items_due
CROSS JOIN partitions ON digest = partition AND key_prefix = :prefix
WHERE due_kind = :kind AND due_at <= :now AND (expires_at IS NULL OR expires_at > :now)
ORDER BY due_at, namespace, items.key
LIMIT :limit

-- name: erase_items
DELETE FROM items WHERE partition = ?

-- name: erase_log
DELETE FROM removals WHERE partition = ?

-- name: expired_partitions
SELECT DISTINCT digest, kind, parts, epoch, sequence, floor, logged
FROM items INDEXED BY items_expiring
CROSS JOIN partitions ON digest = partition AND key_prefix = :prefix
WHERE expires_at IS NOT NULL AND expires_at <= :now

-- name: log_expired
INSERT INTO removals (partition, revision, namespace, key)
SELECT partition, :revision, namespace, key FROM items
WHERE partition = :digest AND expires_at <= :now AND paths <> '[]'

-- name: delete_expired
DELETE FROM items WHERE partition = :digest AND expires_at <= :now

-- name: stats
SELECT
    count(*),
    coalesce(sum((SELECT count(*) FROM items WHERE partition = digest)), 0)
FROM partitions WHERE key_prefix = ? AND kind IS NOT NULL
