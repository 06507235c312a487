-- Where each thread stands, and who has a lease on it. `until` is in seconds since 1970 by the database's clock.

-- name: schema
CREATE TABLE IF NOT EXISTS threadkeep_heads (
    thread_id TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL DEFAULT '',
    newest TEXT NOT NULL DEFAULT '',
    token INTEGER NOT NULL DEFAULT 0,
    holder TEXT,
    until REAL,
    began TEXT
) WITHOUT ROWID

-- name: head
SELECT
    coalesce(run, ''),
    coalesce(newest, ''),
    coalesce(token, 0),
    coalesce(until > (julianday('now') - 2440587.5) * 86400.0, 0),
    (
        SELECT coalesce(max(checkpoint_id), '')
        FROM checkpoints
        WHERE checkpoints.thread_id = :thread AND checkpoint_ns = ''
    )
FROM (SELECT 1) LEFT JOIN threadkeep_heads ON threadkeep_heads.thread_id = :thread

-- name: move
INSERT INTO threadkeep_heads (thread_id, run, newest) VALUES (:thread, :run, :newest)
ON CONFLICT (thread_id) DO UPDATE SET run = excluded.run, newest = excluded.newest

-- name: forget
DELETE FROM threadkeep_heads WHERE thread_id = :thread

-- name: go_on
UPDATE threadkeep_heads SET run = :run, newest = max(newest, :checkpoint)
WHERE thread_id = :thread AND token = :lease AND (:anywhere OR run = :run)

-- name: goes_on
SELECT 1 FROM threadkeep_heads WHERE thread_id = :thread AND token = :lease AND (:anywhere OR run = :run)

-- name: began
SELECT
    coalesce(holder <> :holder AND until > (julianday('now') - 2440587.5) * 86400.0, 0),
    coalesce(began, '')
FROM (SELECT 1) LEFT JOIN threadkeep_heads ON threadkeep_heads.thread_id = :thread

-- name: take
-- Tokens are times, so that one that was lost with the power is never given again.
INSERT INTO threadkeep_heads (thread_id, newest, token, holder, until, began)
SELECT
    :thread,
    there.newest,
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
    :holder,
    (julianday('now') - 2440587.5) * 86400.0 + :seconds,
    there.newest
FROM (
    SELECT coalesce(max(checkpoint_id), '') AS newest
    FROM checkpoints
    WHERE checkpoints.thread_id = :thread AND checkpoint_ns = ''
) AS there
WHERE true
ON CONFLICT (thread_id) DO UPDATE
SET newest = coalesce(:newest, max(threadkeep_heads.newest, excluded.newest)),
    token = max(threadkeep_heads.token + 1, excluded.token),
    holder = excluded.holder,
    until = excluded.until,
    began = coalesce(:newest, max(threadkeep_heads.newest, excluded.newest))
WHERE :forced
    OR threadkeep_heads.holder IS excluded.holder
    OR coalesce(threadkeep_heads.until <= (julianday('now') - 2440587.5) * 86400.0, 1)
RETURNING token

-- name: renew
UPDATE threadkeep_heads
SET until = (julianday('now') - 2440587.5) * 86400.0 + :seconds
WHERE thread_id = :thread AND token = :token

-- name: give_back
UPDATE threadkeep_heads SET until = NULL, holder = NULL WHERE thread_id = :thread AND token = :token

-- name: forget_newer
DELETE FROM checkpoints WHERE thread_id = :thread AND checkpoint_id > :checkpoint

-- name: forget_newer_writes
DELETE FROM writes WHERE thread_id = :thread AND checkpoint_id > :checkpoint

-- name: remove
DELETE FROM checkpoints WHERE thread_id = :thread AND checkpoint_ns = :namespace AND checkpoint_id = :checkpoint

-- name: remove_writes
DELETE FROM writes WHERE thread_id = :thread AND checkpoint_ns = :namespace AND checkpoint_id = :checkpoint

-- name: reparent
UPDATE checkpoints SET parent_checkpoint_id = :parent
WHERE thread_id = :thread AND checkpoint_ns = :namespace AND checkpoint_id = :checkpoint
