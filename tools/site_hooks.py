"""What the site needs beyond its plugins: MkDocs calls these functions by their names while it builds."""

from __future__ import annotations

import re
from typing import Any, Final

_ROLE: Final = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>~?([^<]*)</code>")
"""A cross-reference as docstrings write it; mkdocstrings shows it as text."""


def on_page_content(html: str, **_: Any) -> str:
    """Return *html* with cross-references of docstrings as plain code."""
    return _ROLE.sub(r"<code>\1</code>", html)
