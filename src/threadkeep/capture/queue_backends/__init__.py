"""Engines: who tells a worker that turns wait. The turn records are the truth; what an engine carries is a wake-up."""
