"""The distributions beside the library."""

from __future__ import annotations
