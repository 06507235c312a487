-- Where each thread stands, and who has a lease on it until when by the database's clock.

-- name: schema
CREATE TABLE IF NOT EXISTS threadkeep_heads (
    thread_id text PRIMARY KEY,
    run text NOT NULL DEFAULT '',
    newest text COLLATE "C" NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    holder text,
    until timestamptz,
    wish text
)

-- name: claim_function
-- The rule is threadkeep.threads.fence.judge; a test asks both the same.
CREATE OR REPLACE FUNCTION threadkeep_claim_1(
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
    IF lease IS NULL AND head.until > clock_timestamp() THEN
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

-- name: is_set_up
SELECT
    to_regclass('checkpoint_migrations') IS NOT NULL
    AND to_regclass('threadkeep_heads') IS NOT NULL
    AND to_regproc('threadkeep_claim_1') IS NOT NULL

-- name: version
SELECT max(v) FROM checkpoint_migrations

-- name: claim
SELECT threadkeep_claim_1(
    %(kind)s::text, %(thread)s::text, %(run)s::text, %(checkpoint)s::text, %(parent)s::text,
    %(lease)s::bigint, %(anywhere)s::boolean
)
