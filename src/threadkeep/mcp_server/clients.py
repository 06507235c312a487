"""The configurations with which MCP clients start `threadkeep mcp`, or connect to the gateway."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

LOCAL_URL: Final = "http://127.0.0.1:8000/mcp"
"""Where `threadkeep serve` has the server by default."""


def configurations(command: str | None = None) -> list[dict[str, Any]]:
    """Return one entry a client: its name, where the configuration belongs, and the configuration.

    Args:
        command: The path of the program; ``None``: that of the installed one. Clients do not know the environment in
            which it is installed, so the path is absolute.
    """
    program = command or shutil.which("threadkeep") or str(Path(sys.argv[0]).absolute())
    stdio = {"command": os.path.normpath(program), "args": ["mcp"]}
    http = {"type": "http", "url": LOCAL_URL}
    return [
        _entry("Claude Desktop", "claude_desktop_config.json (Settings, Developer, Edit Config)", "mcpServers", stdio),
        _entry("Claude Code", ".mcp.json of the project", "mcpServers", {"type": "stdio", **stdio}),
        _entry("Cursor", ".cursor/mcp.json of the project, or ~/.cursor/mcp.json", "mcpServers", stdio),
        _entry("VS Code", ".vscode/mcp.json of the workspace", "servers", {"type": "stdio", **stdio}),
        _entry("Claude Code, over HTTP to threadkeep serve", ".mcp.json of the project", "mcpServers", http),
        _entry("VS Code, over HTTP to threadkeep serve", ".vscode/mcp.json of the workspace", "servers", http),
    ]


def configuration_lines() -> Iterator[str]:
    """Yield what `threadkeep init mcp` prints."""
    for entry in configurations():
        yield f"{entry['client']}: {entry['file']}"
        yield from json.dumps(entry["configuration"], indent=2).splitlines()
        yield ""
    yield "The user is the one of the operating system; add --user ID to args to name another one."
    yield "Other commands, such as threadkeep chat, have the user me: --user me shares their memories."
    yield "Add --review to args to let the client decide on proposals for you."


def _entry(client: str, file: str, key: str, server: dict[str, Any]) -> dict[str, Any]:
    return {"client": client, "file": file, "configuration": {key: {"threadkeep": server}}}
