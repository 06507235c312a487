"""A memory, and the vendors' servers where the shipped declarations look for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import threadkeep
from tests.langgraph.agents.vendors import TOKENS, Vendors, serving
from tests.processes import forked_python
from threadkeep.langgraph.agent_servers import SHIPPED
from threadkeep.testing import HashingEmbedder

VARIABLES = {
    "GITHUB_PERSONAL_ACCESS_TOKEN": TOKENS["github"],
    "GITLAB_MCP_TOKEN": TOKENS["gitlab"],
    "SLACK_MCP_TOKEN": TOKENS["slack"],
    "SPLUNK_MCP_TOKEN": TOKENS["splunk"],
}
"""All but AWS's: who wants its server, which is a process, sets ``AWS_PROFILE``."""


@pytest.fixture(scope="session")
def running_server() -> Iterator[Vendors]:
    """Start the servers, once."""
    with serving() as vendors:
        yield vendors


@pytest.fixture
def vendors(running_server: Vendors) -> Vendors:
    """Return the servers, all of them in order."""
    running_server.calls.clear()
    running_server.failing.clear()
    return running_server


@pytest.fixture
def file(vendors: Vendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the shipped declarations with the loopback's addresses for the vendors', and set the credentials."""
    text = SHIPPED.read_text("utf-8")
    for name, url in (
        ("github", "https://api.githubcopilot.com/mcp/"),
        ("gitlab", "https://gitlab.com/api/v4/mcp"),
        ("slack", "https://mcp.slack.com/mcp"),
    ):
        assert url in text
        text = text.replace(url, vendors.url(name))
    begin = text.index("command = [")
    end = text.index("\n", begin)
    text = (
        text[:begin]
        + f"command = {json.dumps([str(forked_python(tmp_path)), '-m', 'tests.langgraph.agents.vendors', 'aws'])}"
        + text[end:]
    )
    path = tmp_path / "agents.toml"
    path.write_text(text, "utf-8")
    for name, value in {**VARIABLES, "SPLUNK_MCP_URL": vendors.url("splunk")}.items():
        monkeypatch.setenv(name, value)
    return path


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    """Open a memory in a file."""
    with threadkeep.open(f"sqlite:///{tmp_path}/m.db", embedder=HashingEmbedder()) as opened:
        yield opened
