"""Items in PostgreSQL: the statements and functions are in ``sql/``, row-level security keeps owners apart."""
