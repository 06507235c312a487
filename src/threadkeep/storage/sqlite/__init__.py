"""Items in a SQLite file: the statements are in ``sql/``, one writer commits groups of them."""
