-- A file that was killed before it was rewritten is rewritten later.
ALTER TABLE birth ADD COLUMN erased_at INTEGER;
