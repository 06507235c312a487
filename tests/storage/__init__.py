"""The pure rules of storage, and what only one backend promises."""

from __future__ import annotations
