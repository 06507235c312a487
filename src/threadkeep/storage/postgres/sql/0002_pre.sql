-- Items may carry bytes beside their value.
ALTER TABLE threadkeep.items ADD COLUMN data bytea;

-- What happened after _sequence, of one moment: a STABLE function sees what the statement sees that calls it.
-- The first row says where the partition is now, and whether the rest is told: puts, and without a value
-- what is no longer there. It is not where that would be a reset, or more than _most rows.
CREATE FUNCTION threadkeep.follow_with_data(
    _role text, _digest bytea, _shard bigint, _epoch text, _sequence bigint, _now bigint, _most bigint
) RETURNS TABLE (
    told boolean, at_epoch text, at_sequence bigint,
    namespace text, key text, value text, revision bigint, created_at bigint, updated_at bigint, paths text,
    model text, dims integer, embedding bytea, ttl bigint, expires_at bigint, due_kind text, due_at bigint, data bytea
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
        NULL::bigint, NULL::bigint, NULL, NULL::bigint, NULL::bytea
    FROM threadkeep.removals AS r WHERE r.partition = _digest AND r.revision > _sequence;
    RETURN QUERY
    SELECT true, NULL, NULL::bigint, i.namespace, i.key,
        CASE WHEN i.expires_at IS NULL OR i.expires_at > _now THEN i.value END,
        i.revision, i.created_at, i.updated_at, i.paths, i.model, i.dims, i.embedding,
        i.ttl, i.expires_at, i.due_kind, i.due_at, i.data
    FROM threadkeep.items AS i
    WHERE i.partition = _digest AND i.searched = _shard AND i.revision > _sequence
    ORDER BY i.revision;
END $$;

-- Does what storage/rows.py decides, in one statement: that module says why, and tests hold the two together.
-- Whoever comes second waits for the partition's row. Every expectation is checked before the first write.
--
-- _expecting, _expected: places and the revision that must be there, NULL: nothing. _quiet: places that are
-- not searchable afterwards. _places and what follows: what is put, one element each.
-- Where it is refused, outcome says why, and for a conflict nth is the element of _expecting and there what is there.
CREATE FUNCTION threadkeep.commit_with_data(
    _role text, _digest bytea, _shard bigint, _deployment bytea, _key_prefix text, _kind text, _parts text,
    _birth text, _epoch text, _now bigint, _most_logged bigint,
    _expecting bytea[], _expected bigint[], _quiet bytea[], _deleted bytea[], _touched bytea[],
    _places bytea[], _namespaces text[], _keys text[], _values text[],
    _created_at bigint[], _updated_at bigint[], _paths text[],
    _models text[], _dims integer[], _embeddings bytea[],
    _ttls bigint[], _expires_at bigint[], _due_kinds text[], _due_at bigint[], _data bytea[]
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
            model, dims, embedding, ttl, expires_at, due_kind, due_at, data
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
            w.ttl, coalesce(w.expires_at, _now + w.ttl), w.due_kind, w.due_at, w.data
        FROM unnest(
            _places, _namespaces, _keys, _values, _created_at, _updated_at, _paths,
            _models, _dims, _embeddings, _ttls, _expires_at, _due_kinds, _due_at, _data
        ) AS w (
            place, namespace, key, value, created_at, updated_at, paths,
            model, dims, embedding, ttl, expires_at, due_kind, due_at, data
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
            due_at = excluded.due_at,
            data = excluded.data;
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
