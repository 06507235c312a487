"""The MCP server of the deep agent's example: tickets that can be found. It speaks over standard input and output."""

from __future__ import annotations

import re

from mcp.server.fastmcp import FastMCP

TICKETS = {
    "T-1": "The printer of the second floor is out of toner.",
    "T-2": "The badge of the new colleague is missing.",
}

server = FastMCP("tickets", log_level="WARNING")


@server.tool()
def find_ticket(words: str) -> str:
    """Return the tickets that hold one of the longer words."""
    wanted = re.findall(r"\w{5,}", words.casefold())
    found = [f"{key}: {text}" for key, text in TICKETS.items() if any(word in text.casefold() for word in wanted)]
    return "\n".join(found) or "There is no such ticket."


if __name__ == "__main__":
    server.run()
