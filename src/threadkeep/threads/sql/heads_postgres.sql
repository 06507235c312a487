-- Where each thread stands, and who has a lease on it until when by the database's clock.

-- name: schema
CREATE TABLE IF NOT EXISTS threadkeep_heads (
    thread_id text PRIMARY KEY,
    run text NOT NULL DEFAULT '',
    newest text COLLATE "C" NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    holder text,
    until timestamptz,
    began text COLLATE "C" NOT NULL DEFAULT ''
)

-- name: began
ALTER TABLE threadkeep_heads ADD COLUMN IF NOT EXISTS began text COLLATE "C" NOT NULL DEFAULT ''

-- name: claim_function
-- The rule is threadkeep.threads.fence.judge; a test asks both the same.
CREATE OR REPLACE FUNCTION threadkeep_claim_2(
    asked text, thread text, writer text, checkpoint text, parent text, lease bigint, anywhere boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    head threadkeep_heads%ROWTYPE;
    newest text COLLATE "C";
BEGIN
    IF asked = 'delete' THEN
        DELETE FROM threadkeep_heads WHERE thread_id = thread;
        RETURN;
    END IF;
    IF asked = 'put' THEN
        INSERT INTO threadkeep_heads (thread_id) VALUES (thread) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO head FROM threadkeep_heads WHERE thread_id = thread FOR UPDATE;
    IF lease IS NOT NULL AND coalesce(head.token, 0) <> lease THEN
        RAISE EXCEPTION 'the lease has passed to another run' USING ERRCODE = 'TK002';
    END IF;
    IF lease IS NULL AND head.until > clock_timestamp() AND NOT anywhere THEN
        RAISE EXCEPTION 'another run is at work' USING ERRCODE = 'TK001';
    END IF;
    SELECT greatest(coalesce(head.newest, ''), coalesce(max(checkpoint_id COLLATE "C"), '')) INTO newest
    FROM checkpoints
    WHERE checkpoints.thread_id = thread AND checkpoint_ns = '';
    IF NOT (
        anywhere
        OR coalesce(head.run, '') = writer AND (writer <> '' OR asked = 'writes')
        OR asked = 'put' AND newest IN (parent, checkpoint)
        OR asked = 'writes' AND newest <= checkpoint COLLATE "C"
    ) THEN
        RAISE EXCEPTION 'another run went on first' USING ERRCODE = 'TK003';
    END IF;
    IF asked = 'put' THEN
        UPDATE threadkeep_heads
        SET run = writer, newest = greatest(head.newest, checkpoint COLLATE "C")
        WHERE thread_id = thread;
    END IF;
END
$$

-- name: lease_function
-- Gives the lease on a thread to `who`, or nothing at all where another one has it and keeps it. Tokens are times, so that
-- one that was lost in a crash is never given again: the commit is not waited for.
CREATE OR REPLACE FUNCTION threadkeep_lease_1(thread text, who text, seconds double precision, strategy text)
RETURNS TABLE (granted bigint, back_to text) LANGUAGE plpgsql AS $$
DECLARE
    head threadkeep_heads%ROWTYPE;
    taken boolean;
    here text COLLATE "C";
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO threadkeep_heads (thread_id) VALUES (thread) ON CONFLICT DO NOTHING;
    SELECT * INTO head FROM threadkeep_heads WHERE thread_id = thread FOR UPDATE;
    taken := coalesce(head.until > clock_timestamp() AND head.holder <> who, false);
    IF taken AND strategy NOT IN ('interrupt', 'rollback') THEN
        RETURN;
    END IF;
    IF taken AND strategy = 'rollback' THEN
        here := head.began;
        back_to := head.began;
    ELSE
        SELECT greatest(head.newest, coalesce(max(checkpoint_id COLLATE "C"), '')) INTO here
        FROM checkpoints
        WHERE checkpoints.thread_id = thread AND checkpoint_ns = '';
    END IF;
    UPDATE threadkeep_heads
    SET newest = here,
        began = here,
        holder = who,
        until = clock_timestamp() + make_interval(secs => seconds),
        token = greatest(head.token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    WHERE thread_id = thread
    RETURNING token INTO granted;
    RETURN NEXT;
END
$$

-- name: is_set_up
SELECT
    to_regclass('checkpoint_migrations') IS NOT NULL
    AND to_regclass('threadkeep_heads') IS NOT NULL
    AND to_regproc('threadkeep_claim_2') IS NOT NULL
    AND to_regproc('threadkeep_lease_1') IS NOT NULL

-- name: version
SELECT max(v) FROM checkpoint_migrations

-- name: claim
SELECT threadkeep_claim_2(
    %(kind)s::text, %(thread)s::text, %(run)s::text, %(checkpoint)s::text, %(parent)s::text,
    %(lease)s::bigint, %(anywhere)s::boolean
)

-- name: take
SELECT granted, back_to
FROM threadkeep_lease_1(%(thread)s::text, %(holder)s::text, %(seconds)s::double precision, %(strategy)s::text)

-- name: renew
UPDATE threadkeep_heads
SET until = clock_timestamp() + make_interval(secs => %(seconds)s::double precision)
FROM unnest(%(threads)s::text[], %(tokens)s::bigint[]) AS held (thread, number)
WHERE thread_id = held.thread AND token = held.number
RETURNING thread_id

-- name: give_back
UPDATE threadkeep_heads SET until = NULL, holder = NULL
WHERE thread_id = %(thread)s::text AND token = %(token)s::bigint

-- name: forget_newer
WITH gone AS (
    DELETE FROM checkpoint_writes
    WHERE thread_id = %(thread)s::text AND checkpoint_id COLLATE "C" > %(checkpoint)s::text
)
DELETE FROM checkpoints
WHERE thread_id = %(thread)s::text AND checkpoint_id COLLATE "C" > %(checkpoint)s::text

-- name: remove
WITH gone AS (
    SELECT namespace, checkpoint FROM unnest(%(namespaces)s::text[], %(checkpoints)s::text[]) AS one (namespace, checkpoint)
),
written AS (
    DELETE FROM checkpoint_writes USING gone
    WHERE thread_id = %(thread)s::text AND checkpoint_ns = namespace AND checkpoint_id = checkpoint
)
DELETE FROM checkpoints USING gone
WHERE thread_id = %(thread)s::text AND checkpoint_ns = namespace AND checkpoint_id = gone.checkpoint

-- name: remove_values
DELETE FROM checkpoint_blobs AS blob
WHERE thread_id = %(thread)s::text AND NOT EXISTS (
    SELECT FROM checkpoints AS one
    WHERE one.thread_id = blob.thread_id
        AND one.checkpoint_ns = blob.checkpoint_ns
        AND one.checkpoint -> 'channel_versions' ->> blob.channel = blob.version
)

-- name: reparent
UPDATE checkpoints SET parent_checkpoint_id = %(parent)s::text
WHERE thread_id = %(thread)s::text AND checkpoint_ns = %(namespace)s::text AND checkpoint_id = %(checkpoint)s::text
