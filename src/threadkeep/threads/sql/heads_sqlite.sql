-- Where each thread stands, and who has a lease on it. `until` is in seconds since 1970 by the database's clock.

-- name: schema
CREATE TABLE IF NOT EXISTS threadkeep_heads (
    thread_id TEXT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL DEFAULT '',
    newest TEXT NOT NULL DEFAULT '',
    token INTEGER NOT NULL DEFAULT 0,
    holder TEXT,
    until REAL,
    wish TEXT
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
