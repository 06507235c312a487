"""Texts that break what takes them for simpler than they are; each is different from every other."""

from __future__ import annotations

from typing import Final

NASTY_TEXTS: Final = (
    "",
    " ",
    "a.b@x.org",
    "a_b@x_org",
    "a/b\\c",
    "user1",
    "user10",
    "%_",
    "%",
    "*",
    ".",
    "~",
    "'; DROP TABLE items; --",
    '"quoted"',
    '","',
    "[1,2]",
    "null",
    "\n\r\t",
    "\0",
    "a\0b",
    "a",
    "A",
    "\ud800",
    "\udfffx",
    "\u00e4",
    "a\u0308",
    "\u202egnp",
    "日本語",
    "עברית",
    "🦜",
    "x" * 1000,
)
"""Empty, white, dotted, slashed, quoted, NUL, lone surrogates, composed and not, wide, right to left, long."""
