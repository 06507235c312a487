"""The models room: embedding without a key, every provider through LangChain, and messages as our own."""

from __future__ import annotations
