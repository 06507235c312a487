"""The tests, arranged like the services they test; ``tests/fundamentals`` reads as an introduction."""

from __future__ import annotations
