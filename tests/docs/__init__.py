"""The documents say what is true."""

from __future__ import annotations
