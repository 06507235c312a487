"""Read these in order: they are the tutorial."""
