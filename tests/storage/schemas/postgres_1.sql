-- The full truth of a PostgreSQL storage, version 1.
-- Texts are JSON in ASCII, moments microseconds since 1970, durations microseconds, so no setting of
-- the server, its encoding or collation matters. Whatever can be long stands in no key: keys hold digests.
--
-- Row-level security is forced: who reads and writes items is threadkeep_app, which sees the one
-- partition that the transaction has named, and what goes across partitions is threadkeep_service. Where
-- those roles cannot be made, the owner of the tables takes their place and is held by the same policies.

-- What was done to this schema. serves: the oldest code that works with it; done_at is NULL meanwhile.
CREATE TABLE threadkeep.migrations (
    version integer NOT NULL,
    stage text NOT NULL,
    serves integer NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    PRIMARY KEY (version, stage)
);

-- One row: the epoch of every partition that was never erased.
CREATE TABLE threadkeep.birth (
    epoch text NOT NULL
);

-- digest: SHA-256 of the key prefix and the partition's digest; it leads every key.
-- deployment: SHA-256 of the key prefix.
-- kind, parts: the spelling; NULL once it was erased.
-- floor: the change log tells everything after this sequence; logged: its rows.
CREATE TABLE threadkeep.partitions (
    digest bytea NOT NULL PRIMARY KEY,
    deployment bytea NOT NULL,
    key_prefix text NOT NULL,
    kind text,
    parts text,
    epoch text NOT NULL,
    sequence bigint NOT NULL,
    floor bigint NOT NULL,
    logged bigint NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX partitions_of_deployment ON threadkeep.partitions (deployment, digest);

-- place: 16 bytes of the namespace's SHA-256 and 16 of the key's, so a namespace's items lie together.
-- shard: the first 8 bytes of partition; searched: the same, where the item is searchable. Each index begins
-- with a column of its own, so that for each question there is one index that can answer it, and no plan
-- that was made while the table was small is a bad one when it has grown.
-- work: finds due_kind, which may be long.
CREATE TABLE threadkeep.items (
    partition bytea NOT NULL,
    place bytea NOT NULL,
    shard bigint NOT NULL,
    searched bigint,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    paths text COLLATE "C" NOT NULL,
    model text COLLATE "C",
    dims integer,
    embedding bytea,
    ttl bigint,
    expires_at bigint,
    due_kind text COLLATE "C",
    due_at bigint,
    work bigint GENERATED ALWAYS AS (hashtextextended(due_kind, 0)) STORED,
    PRIMARY KEY (partition, place)
) /* BY HASH */;

-- Vectors do not compress; what fits a page stays in the row, where loading an index finds it at once.
ALTER TABLE threadkeep.items ALTER COLUMN embedding SET STORAGE EXTERNAL;

CREATE INDEX items_in_order ON threadkeep.items (shard, updated_at, revision);
CREATE INDEX items_searchable ON threadkeep.items (searched, revision) WHERE searched IS NOT NULL;
CREATE INDEX items_due ON threadkeep.items (work, due_at) WHERE work IS NOT NULL;
CREATE INDEX items_expiring ON threadkeep.items (expires_at) WHERE expires_at IS NOT NULL;

-- What ceased to be searchable, and when.
CREATE TABLE threadkeep.removals (
    partition bytea NOT NULL,
    revision bigint NOT NULL,
    place bytea NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (partition, revision, place)
) /* BY HASH */;

/* PARTITIONS */

-- Whoever may take on the roles may work here; what is granted to everybody tells nothing of anybody.
GRANT USAGE ON SCHEMA threadkeep TO PUBLIC;
GRANT SELECT ON threadkeep.migrations, threadkeep.birth TO PUBLIC;

ALTER TABLE threadkeep.partitions ENABLE ROW LEVEL SECURITY;
ALTER TABLE threadkeep.partitions FORCE ROW LEVEL SECURITY;
ALTER TABLE threadkeep.items ENABLE ROW LEVEL SECURITY;
ALTER TABLE threadkeep.items FORCE ROW LEVEL SECURITY;
ALTER TABLE threadkeep.removals ENABLE ROW LEVEL SECURITY;
ALTER TABLE threadkeep.removals FORCE ROW LEVEL SECURITY;

-- Whether this is the service at work: the setting alone would let in whoever sets it.
CREATE FUNCTION threadkeep.serves() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_setting('threadkeep.service', true) = 'on' AND (
        current_user = 'threadkeep_service' OR pg_has_role(c.relowner, 'USAGE')
    ) FROM pg_catalog.pg_class AS c WHERE c.oid = 'threadkeep.items'::regclass
$$;

-- Each SELECT is evaluated once for a statement, not for each row.
CREATE POLICY of_one_partition ON threadkeep.partitions USING (
    digest = (SELECT decode(current_setting('threadkeep.partition', true), 'hex'))
    OR (SELECT threadkeep.serves())
);
CREATE POLICY of_one_partition ON threadkeep.items USING (
    partition = (SELECT decode(current_setting('threadkeep.partition', true), 'hex'))
    OR (SELECT threadkeep.serves())
);
CREATE POLICY of_one_partition ON threadkeep.removals USING (
    partition = (SELECT decode(current_setting('threadkeep.partition', true), 'hex'))
    OR (SELECT threadkeep.serves())
);

-- The functions are what the storage calls: one statement and one round trip for each of its methods, with
-- plans that a session keeps although nothing is prepared, so a pooler in between does not matter. Each first
-- takes on its role, and plans by indexes and their order only, for the rest of the transaction. A function is never changed: another behaviour
-- gets another name, so that the code before goes on with the one that it knows.

CREATE FUNCTION threadkeep.get(_role text, _digest bytea, _places bytea[], _now bigint)
RETURNS SETOF threadkeep.items LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    RETURN QUERY
    SELECT i.* FROM threadkeep.items AS i
    WHERE i.partition = _digest AND i.place = ANY (_places) AND (i.expires_at IS NULL OR i.expires_at > _now);
END $$;

CREATE FUNCTION threadkeep.head(_role text, _digest bytea)
RETURNS SETOF threadkeep.partitions LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    RETURN QUERY SELECT p.* FROM threadkeep.partitions AS p WHERE p.digest = _digest;
END $$;

CREATE FUNCTION threadkeep.scan_newest(
    _role text, _digest bytea, _shard bigint, _first text, _last text,
    _updated_at bigint, _revision bigint, _namespace text, _key text, _now bigint, _limit bigint
) RETURNS SETOF threadkeep.items LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    RETURN QUERY
    SELECT i.* FROM threadkeep.items AS i
    WHERE i.partition = _digest AND i.shard = _shard
        AND (i.updated_at, i.revision) <= (_updated_at, _revision)
        AND (i.updated_at, i.revision, i.namespace, i.key) < (_updated_at, _revision, _namespace, _key)
        AND i.namespace BETWEEN _first AND _last
        AND (i.expires_at IS NULL OR i.expires_at > _now)
    ORDER BY i.updated_at DESC, i.revision DESC, i.namespace DESC, i.key DESC
    LIMIT _limit;
END $$;

CREATE FUNCTION threadkeep.scan_oldest(
    _role text, _digest bytea, _shard bigint, _first text, _last text,
    _updated_at bigint, _revision bigint, _namespace text, _key text, _now bigint, _limit bigint
) RETURNS SETOF threadkeep.items LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    RETURN QUERY
    SELECT i.* FROM threadkeep.items AS i
    WHERE i.partition = _digest AND i.shard = _shard
        AND (i.updated_at, i.revision) >= (_updated_at, _revision)
        AND (i.updated_at, i.revision, i.namespace, i.key) > (_updated_at, _revision, _namespace, _key)
        AND i.namespace BETWEEN _first AND _last
        AND (i.expires_at IS NULL OR i.expires_at > _now)
    ORDER BY i.updated_at, i.revision, i.namespace, i.key
    LIMIT _limit;
END $$;

-- What happened after _sequence, of one moment: a STABLE function sees what the statement sees that calls it.
-- The first row says where the partition is now, and whether the rest is told: puts, and without a value
-- what is no longer there. It is not where that would be a reset, or more than _most rows.
CREATE FUNCTION threadkeep.follow(
    _role text, _digest bytea, _shard bigint, _epoch text, _sequence bigint, _now bigint, _most bigint
) RETURNS TABLE (
    told boolean, at_epoch text, at_sequence bigint,
    namespace text, key text, value text, revision bigint, created_at bigint, updated_at bigint, paths text,
    model text, dims integer, embedding bytea, ttl bigint, expires_at bigint, due_kind text, due_at bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    _head threadkeep.partitions;
    _told boolean;
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    SELECT p.* INTO _head FROM threadkeep.partitions AS p WHERE p.digest = _digest;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    _told := _epoch = _head.epoch AND _sequence BETWEEN _head.floor AND _head.sequence;
    IF _told AND _sequence < _head.sequence THEN
        SELECT count(*) <= _most INTO _told FROM (
            SELECT FROM threadkeep.items AS i
            WHERE i.partition = _digest AND i.searched = _shard AND i.revision > _sequence
            ORDER BY i.revision LIMIT _most + 1
        ) AS few;
    END IF;
    told := coalesce(_told, false);
    at_epoch := _head.epoch;
    at_sequence := _head.sequence;
    RETURN NEXT;
    IF NOT told OR _sequence = _head.sequence THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT true, NULL, NULL::bigint, r.namespace, r.key, NULL,
        NULL::bigint, NULL::bigint, NULL::bigint, NULL, NULL, NULL::integer, NULL::bytea,
        NULL::bigint, NULL::bigint, NULL, NULL::bigint
    FROM threadkeep.removals AS r WHERE r.partition = _digest AND r.revision > _sequence;
    RETURN QUERY
    SELECT true, NULL, NULL::bigint, i.namespace, i.key,
        CASE WHEN i.expires_at IS NULL OR i.expires_at > _now THEN i.value END,
        i.revision, i.created_at, i.updated_at, i.paths, i.model, i.dims, i.embedding,
        i.ttl, i.expires_at, i.due_kind, i.due_at
    FROM threadkeep.items AS i
    WHERE i.partition = _digest AND i.searched = _shard AND i.revision > _sequence
    ORDER BY i.revision;
END $$;

-- Removes what no longer fits the change log of a partition, whole revisions at a time.
CREATE FUNCTION threadkeep.trim_log(_digest bytea, _most_logged bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _floor bigint;
    _gone bigint;
BEGIN
    SELECT r.revision INTO _floor FROM threadkeep.removals AS r
    WHERE r.partition = _digest ORDER BY r.revision DESC LIMIT 1 OFFSET _most_logged;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM threadkeep.removals AS r WHERE r.partition = _digest AND r.revision <= _floor;
    GET DIAGNOSTICS _gone = ROW_COUNT;
    UPDATE threadkeep.partitions AS p SET floor = _floor, logged = p.logged - _gone WHERE p.digest = _digest;
END $$;

-- Does what storage/commit.py decides, in one statement: that module says why, and tests hold the two together.
-- Whoever comes second waits for the partition's row. Every expectation is checked before the first write.
--
-- _expecting, _expected: places and the revision that must be there, NULL: nothing. _quiet: places that are
-- not searchable afterwards. _places and what follows: what is put, one element each.
-- Where it is refused, outcome says why, and for a conflict nth is the element of _expecting and there what is there.
CREATE FUNCTION threadkeep.commit(
    _role text, _digest bytea, _shard bigint, _deployment bytea, _key_prefix text, _kind text, _parts text,
    _birth text, _epoch text, _now bigint, _most_logged bigint,
    _expecting bytea[], _expected bigint[], _quiet bytea[], _deleted bytea[], _touched bytea[],
    _places bytea[], _namespaces text[], _keys text[], _values text[],
    _created_at bigint[], _updated_at bigint[], _paths text[],
    _models text[], _dims integer[], _embeddings bytea[],
    _ttls bigint[], _expires_at bigint[], _due_kinds text[], _due_at bigint[]
) RETURNS TABLE (outcome text, at_epoch text, at_sequence bigint, nth bigint, there bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _head threadkeep.partitions;
    _revision bigint;
    _logged bigint := 0;
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    SELECT p.* INTO _head FROM threadkeep.partitions AS p WHERE p.digest = _digest FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO threadkeep.partitions (digest, deployment, key_prefix, epoch, sequence, floor, logged)
        VALUES (_digest, _deployment, _key_prefix, _birth, 0, 0, 0)
        ON CONFLICT DO NOTHING;
        SELECT p.* INTO _head FROM threadkeep.partitions AS p WHERE p.digest = _digest FOR UPDATE;
    END IF;
    _revision := _head.sequence + 1;
    IF _epoch <> _head.epoch THEN
        outcome := 'erased';
        RETURN NEXT;
        RETURN;
    END IF;
    IF _expecting IS NOT NULL THEN
        SELECT w.nth, i.revision INTO nth, there
        FROM unnest(_expecting, _expected) WITH ORDINALITY AS w (place, revision, nth)
        LEFT JOIN threadkeep.items AS i
            ON i.partition = _digest AND i.place = w.place AND (i.expires_at IS NULL OR i.expires_at > _now)
        WHERE i.revision IS DISTINCT FROM w.revision
        ORDER BY w.nth LIMIT 1;
        IF FOUND THEN
            outcome := 'conflict';
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    IF _quiet IS NOT NULL THEN
        INSERT INTO threadkeep.removals (partition, revision, place, namespace, key)
        SELECT _digest, _revision, i.place, i.namespace, i.key FROM threadkeep.items AS i
        WHERE i.partition = _digest AND i.place = ANY (_quiet) AND i.searched IS NOT NULL;
        GET DIAGNOSTICS _logged = ROW_COUNT;
    END IF;
    IF _deleted IS NOT NULL THEN
        DELETE FROM threadkeep.items AS i WHERE i.partition = _digest AND i.place = ANY (_deleted);
    END IF;
    IF _touched IS NOT NULL THEN
        UPDATE threadkeep.items AS i SET revision = _revision, expires_at = _now + i.ttl
        WHERE i.partition = _digest AND i.place = ANY (_touched)
            AND (i.expires_at IS NULL OR i.expires_at > _now);
    END IF;
    IF _places IS NOT NULL THEN
        INSERT INTO threadkeep.items (
            partition, place, shard, searched, namespace, key, value, revision, created_at, updated_at, paths,
            model, dims, embedding, ttl, expires_at, due_kind, due_at
        )
        SELECT
            _digest, w.place, _shard, CASE WHEN w.paths <> '[]' THEN _shard END, w.namespace, w.key, w.value, _revision,
            coalesce(
                w.created_at,
                (SELECT i.created_at FROM threadkeep.items AS i
                 WHERE i.partition = _digest AND i.place = w.place
                     AND (i.expires_at IS NULL OR i.expires_at > _now)),
                _now
            ),
            coalesce(w.updated_at, _now), w.paths, w.model, w.dims, w.embedding,
            w.ttl, coalesce(w.expires_at, _now + w.ttl), w.due_kind, w.due_at
        FROM unnest(
            _places, _namespaces, _keys, _values, _created_at, _updated_at, _paths,
            _models, _dims, _embeddings, _ttls, _expires_at, _due_kinds, _due_at
        ) AS w (
            place, namespace, key, value, created_at, updated_at, paths,
            model, dims, embedding, ttl, expires_at, due_kind, due_at
        )
        ON CONFLICT (partition, place) DO UPDATE SET
            searched = excluded.searched,
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
            due_at = excluded.due_at;
    END IF;
    UPDATE threadkeep.partitions AS p
    SET sequence = _revision, kind = _kind, parts = _parts, logged = p.logged + _logged
    WHERE p.digest = _digest;
    IF _head.logged + _logged > _most_logged THEN
        PERFORM threadkeep.trim_log(_digest, _most_logged);
    END IF;
    outcome := 'done';
    at_epoch := _head.epoch;
    at_sequence := _revision;
    RETURN NEXT;
END $$;

-- Removes everything of a partition but the row that says so; returns how many items there were.
CREATE FUNCTION threadkeep.erase(
    _role text, _digest bytea, _deployment bytea, _key_prefix text, _epoch text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _erased bigint;
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.partition', encode(_digest, 'hex'), true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_sort', 'off', true);
    INSERT INTO threadkeep.partitions AS p (digest, deployment, key_prefix, epoch, sequence, floor, logged)
    VALUES (_digest, _deployment, _key_prefix, _epoch, 0, 0, 0)
    ON CONFLICT (digest) DO UPDATE SET
        kind = NULL, parts = NULL, epoch = excluded.epoch, floor = p.sequence, logged = 0;
    DELETE FROM threadkeep.removals AS r WHERE r.partition = _digest;
    DELETE FROM threadkeep.items AS i WHERE i.partition = _digest;
    GET DIAGNOSTICS _erased = ROW_COUNT;
    RETURN _erased;
END $$;

-- Removes up to _most of what has expired; returns how many it found and how many it removed: what was
-- found may live again by the time its partition's row is locked. Partitions are locked in one order.
CREATE FUNCTION threadkeep.sweep(
    _role text, _deployment bytea, _now bigint, _most bigint, _most_logged bigint
) RETURNS TABLE (seen bigint, removed bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _expired record;
    _head threadkeep.partitions;
    _gone bigint;
    _logged bigint;
BEGIN
    PERFORM set_config('role', _role, true),
        set_config('threadkeep.service', 'on', true),
        set_config('enable_seqscan', 'off', true);
    seen := 0;
    removed := 0;
    FOR _expired IN
        SELECT few.partition, array_agg(few.place) AS places, count(*) AS items FROM (
            SELECT i.partition, i.place
            FROM threadkeep.items AS i JOIN threadkeep.partitions AS p ON p.digest = i.partition
            WHERE p.deployment = _deployment AND i.expires_at IS NOT NULL AND i.expires_at <= _now
            ORDER BY i.expires_at LIMIT _most
        ) AS few GROUP BY few.partition ORDER BY few.partition
    LOOP
        seen := seen + _expired.items;
        SELECT p.* INTO _head FROM threadkeep.partitions AS p WHERE p.digest = _expired.partition FOR UPDATE;
        WITH gone AS (
            DELETE FROM threadkeep.items AS i
            WHERE i.partition = _expired.partition AND i.place = ANY (_expired.places) AND i.expires_at <= _now
            RETURNING i.place, i.namespace, i.key, i.paths
        ), logged AS (
            INSERT INTO threadkeep.removals (partition, revision, place, namespace, key)
            SELECT _expired.partition, _head.sequence + 1, gone.place, gone.namespace, gone.key
            FROM gone WHERE gone.paths <> '[]'
            RETURNING place
        )
        SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM logged) INTO _gone, _logged;
        IF _gone > 0 THEN
            removed := removed + _gone;
            UPDATE threadkeep.partitions AS p SET sequence = p.sequence + 1, logged = p.logged + _logged
            WHERE p.digest = _expired.partition;
            IF _head.logged + _logged > _most_logged THEN
                PERFORM threadkeep.trim_log(_expired.partition, _most_logged);
            END IF;
        END IF;
    END LOOP;
    RETURN NEXT;
END $$;
