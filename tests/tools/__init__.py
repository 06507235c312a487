"""The repository's own checks go red on a planted violation."""

from __future__ import annotations
