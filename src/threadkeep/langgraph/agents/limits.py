"""How much of what an MCP server says reaches a model and the checkpoints: it may say anything, at any length."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from mcp.types import CallToolResult, ContentBlock

MAX_DESCRIPTION_CHARACTERS: Final = 50_000
"""A tool whose description and arguments are longer is not used: the model would read them with every call."""


def is_presentable(tool: BaseTool) -> bool:
    """Whether a tool says no more of itself than a model can be given with each call."""
    return len(tool.description) + len(json.dumps(tool.args_schema, default=str)) <= MAX_DESCRIPTION_CHARACTERS


def bounded(result: CallToolResult, longest: int) -> CallToolResult:
    """Return *result* with its first *longest* characters, and a line that says so where there were more.

    Texts are cut; images and other data stay as they are or go. What a server adds for programs counts as well.
    """
    from mcp.types import TextContent

    whole = sum(map(_size, result.content))
    structured = result.structuredContent
    if structured is not None and len(json.dumps(structured)) > longest:
        structured = None
    if whole <= longest:
        return result.model_copy(update={"structuredContent": structured})
    left, kept = longest, list["ContentBlock"]()
    for block in result.content:
        if isinstance(block, TextContent):
            kept.append(block.model_copy(update={"text": block.text[:left]}))
        elif _size(block) <= left:
            kept.append(block)
        left = max(0, left - _size(block))
    said = f"[Cut: {whole:,} characters came, and no more than {longest:,} are handed on. Ask for less at a time.]"
    kept.append(TextContent(type="text", text=said))
    return result.model_copy(update={"content": kept, "structuredContent": structured})


def _size(block: Any) -> int:
    text = getattr(block, "text", None)
    return len(text) if isinstance(text, str) else len(block.model_dump_json())
