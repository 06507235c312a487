"""The tests, arranged like the rooms they test; ``tests/fundamentals`` reads as an introduction."""

from __future__ import annotations
