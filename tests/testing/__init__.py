"""What the library ships for tests."""

from __future__ import annotations
