-- Statements of PostgresStorage; the functions are in schema.sql. Results are asked for in binary.

-- name: head
SELECT epoch, sequence, floor FROM threadkeep.head(%s, %s)

-- name: get
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM threadkeep.get(%s, %s, %b::bytea[], %s)

-- With the plans of the function's statements that the session keeps: with an array in the question a server plans
-- each of them anew, which takes longer than carrying them out. Kept, they must be good for any number of rows: by the
-- primary key, so other ways to join are put out of reach, as the function does for other ways to read.
-- name: commit
SELECT outcome, at_epoch, at_sequence, nth, there FROM (
    SELECT concat(
        set_config('plan_cache_mode', 'force_generic_plan', true),
        set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true),
        set_config('enable_material', 'off', true)
    ) AS kept OFFSET 0
) AS plans CROSS JOIN LATERAL threadkeep.commit_with_data(
    CASE WHEN plans.kept <> '' THEN %s END, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
    %b::bytea[], %s::bigint[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::bytea[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[],
    %s::text[], %s::integer[], %b::bytea[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %b::bytea[]
)

-- name: scan_newest
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM threadkeep.scan_newest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: scan_oldest
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM threadkeep.scan_oldest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: follow
SELECT
    told, at_epoch, at_sequence, namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM threadkeep.follow_with_data(%s, %s, %s, %s, %s, %s, %s)

-- name: erase
SELECT threadkeep.erase(%s, %s, %s, %s, %s)

-- name: sweep
SELECT seen, removed FROM threadkeep.sweep(%s, %s, %s, %s, %s)

-- Takes on a role for the rest of the transaction. plans: off, but for what goes across partitions.
-- name: enter
SELECT
    set_config('role', %(role)s, true),
    set_config('threadkeep.partition', %(partition)s, true),
    set_config('threadkeep.service', %(service)s, true),
    set_config('enable_seqscan', %(plans)s, true),
    set_config('enable_bitmapscan', %(plans)s, true),
    set_config('enable_sort', %(plans)s, true),
    set_config('statement_timeout', %(milliseconds)s, true),
    set_config('idle_in_transaction_session_timeout', %(milliseconds)s, true)

-- name: searchable
DECLARE searchable NO SCROLL CURSOR FOR
SELECT
    namespace, key, value, revision, created_at, updated_at, paths,
    model, dims, embedding, ttl, expires_at, due_kind, due_at, data
FROM threadkeep.items
WHERE partition = %s AND searched = %s AND revision > %s AND (expires_at IS NULL OR expires_at > %s)
ORDER BY revision

-- name: next_searchable
FETCH 2000 FROM searchable

-- name: removed
SELECT namespace, key FROM threadkeep.removals WHERE partition = %(digest)s AND revision > %(after)s
UNION
SELECT namespace, key FROM threadkeep.items
WHERE partition = %(digest)s AND searched = %(shard)s AND revision > %(after)s AND expires_at <= %(now)s

-- name: due
SELECT
    p.kind, p.parts,
    i.namespace, i.key, i.value, i.revision, i.created_at, i.updated_at, i.paths,
    i.model, i.dims, i.embedding, i.ttl, i.expires_at, i.due_kind, i.due_at, i.data
FROM threadkeep.items AS i JOIN threadkeep.partitions AS p ON p.digest = i.partition
WHERE p.deployment = %(deployment)s AND p.kind IS NOT NULL
    AND i.work = hashtextextended(%(kind)s, 0) AND i.due_kind = %(kind)s AND i.due_at <= %(now)s
    AND (i.expires_at IS NULL OR i.expires_at > %(now)s)
ORDER BY i.due_at, i.namespace, i.key
LIMIT %(limit)s

-- name: partitions
SELECT kind, parts FROM threadkeep.partitions
WHERE deployment = %(deployment)s AND kind IS NOT NULL AND digest > %(after)s
ORDER BY digest
LIMIT %(limit)s

-- Jumps from one namespace of a partition to the next, so that it costs as many steps as there are
-- namespaces, however many items they hold.
-- name: namespaces
WITH RECURSIVE places (partition, namespace, first, behind) AS (
    SELECT p.digest, f.namespace, f.place, substring(f.place FROM 1 FOR 16) || decode(repeat('ff', 17), 'hex')
    FROM threadkeep.partitions AS p CROSS JOIN LATERAL (
        SELECT i.place, i.namespace FROM threadkeep.items AS i
        WHERE i.partition = p.digest ORDER BY i.place LIMIT 1
    ) AS f
    WHERE p.deployment = %(deployment)s AND p.kind IS NOT NULL
    UNION ALL
    SELECT l.partition, f.namespace, f.place, substring(f.place FROM 1 FOR 16) || decode(repeat('ff', 17), 'hex')
    FROM places AS l CROSS JOIN LATERAL (
        SELECT i.place, i.namespace FROM threadkeep.items AS i
        WHERE i.partition = l.partition AND i.place > l.behind ORDER BY i.place LIMIT 1
    ) AS f
)
SELECT DISTINCT namespace FROM places AS l
WHERE EXISTS (
    SELECT FROM threadkeep.items AS i
    WHERE i.partition = l.partition AND i.place >= l.first AND i.place <= l.behind
        AND (i.expires_at IS NULL OR i.expires_at > %(now)s)
)

-- name: stats
SELECT
    (SELECT count(*) FROM threadkeep.partitions WHERE deployment = %(deployment)s AND kind IS NOT NULL),
    (SELECT count(*) FROM threadkeep.items AS i JOIN threadkeep.partitions AS p ON p.digest = i.partition
     WHERE p.deployment = %(deployment)s AND p.kind IS NOT NULL),
    (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_catalog.pg_class AS c
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'threadkeep' AND c.relkind = 'r')

-- name: birth
SELECT epoch FROM threadkeep.birth


-- name: durability
SELECT current_setting('fsync'), current_setting('synchronous_commit')

-- name: clock
SELECT extract(epoch FROM clock_timestamp())::float8

-- name: inspect
SELECT
    current_setting('server_version_num')::integer AS server_version,
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
    u.rolname::text AS "user",
    u.rolsuper OR u.rolbypassrls AS bypasses,
    u.rolsuper OR u.rolcreaterole AS makes_roles,
    ARRAY(
        SELECT r.rolname::text FROM pg_catalog.pg_roles AS r
        WHERE r.rolname IN ('threadkeep_app', 'threadkeep_service')
    ) AS roles,
    ARRAY(
        SELECT r.rolname::text FROM pg_catalog.pg_roles AS r
        WHERE r.rolname IN ('threadkeep_app', 'threadkeep_service') AND pg_has_role(
            u.rolname, r.oid,
            CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END
        )
    ) AS takes_on,
    EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname = 'threadkeep') AS has_schema,
    ARRAY(
        SELECT c.relname::text
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'threadkeep' AND c.relkind IN ('r', 'p')
    ) AS tables,
    ARRAY(
        SELECT DISTINCT a.grantee::regrole::text
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE n.nspname = 'threadkeep' AND c.relname = 'items' AND a.privilege_type = 'INSERT' AND a.grantee <> 0
    ) AS granted,
    coalesce((
        SELECT pg_has_role(u.rolname, c.relowner, 'USAGE')
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'threadkeep' AND c.relname = 'items'
    ), false) AS owns
FROM pg_catalog.pg_roles AS u WHERE u.rolname = current_user

-- name: migrations
SELECT version, stage, serves, done_at IS NOT NULL FROM threadkeep.migrations ORDER BY version, stage

-- name: made
INSERT INTO threadkeep.migrations (version, stage, serves, done_at) VALUES (%s, %s, %s, now())

-- name: begun
INSERT INTO threadkeep.migrations (version, stage, serves) VALUES (%s, %s, %s)
ON CONFLICT (version, stage) DO UPDATE SET begun_at = now(), done_at = NULL

-- name: done
UPDATE threadkeep.migrations SET done_at = now() WHERE version = %s AND stage = %s

-- name: bear
INSERT INTO threadkeep.birth (epoch) VALUES (%s)
