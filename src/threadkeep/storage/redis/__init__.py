"""Items in Redis, Valkey or a cluster of them: core commands and the scripts in ``lua/`` only."""
