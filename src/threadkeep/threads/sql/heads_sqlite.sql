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

-- name: lease
SELECT
    coalesce(token, 0),
    coalesce(holder, ''),
    coalesce(until > (julianday('now') - 2440587.5) * 86400.0, 0),
    coalesce(began, ''),
    max(coalesce(newest, ''), (
        SELECT coalesce(max(checkpoint_id), '')
        FROM checkpoints
        WHERE checkpoints.thread_id = :thread AND checkpoint_ns = ''
    ))
FROM (SELECT 1) LEFT JOIN threadkeep_heads ON threadkeep_heads.thread_id = :thread

-- name: take
-- Tokens are times, so that one that was lost with the power is never given again.
INSERT INTO threadkeep_heads (thread_id, newest, token, holder, until, began)
VALUES (
    :thread,
    :newest,
    max(:token, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    :holder,
    (julianday('now') - 2440587.5) * 86400.0 + :seconds,
    :newest
)
ON CONFLICT (thread_id) DO UPDATE
SET newest = excluded.newest,
    token = excluded.token,
    holder = excluded.holder,
    until = excluded.until,
    began = excluded.began
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
