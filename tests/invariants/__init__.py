"""What must never happen, tried many times: ``python -m tests.invariants`` prints a table."""
