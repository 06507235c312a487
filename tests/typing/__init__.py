"""What a type checker sees of the public surface; `make check` reads it, nothing runs it."""
