"""What a file may declare, and how it is told that it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from threadkeep.errors import SettingsError
from threadkeep.langgraph.agent_servers import Declaration, declared, read

LEAST: dict[str, Any] = {"description": "d", "prompt": "p", "url": "https://mcp.example.org/mcp", "tools": ["look"]}
WRITING = ("write", "create", "save", "add_", "merge_pull", "send", "run_script", "run_query")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def one(**changed: Any) -> Declaration:
    table = {key: value for key, value in {**LEAST, **changed}.items() if value is not None}
    return declared({"it": table}, origin="agents.toml")[0]


class TestShipped:
    def test_five_agents(self):
        assert [one.name for one in read(None)] == ["github", "gitlab", "slack", "aws", "splunk"]

    def test_writing_tools_wait_for_an_approval(self):
        for agent in read(None):
            writing = {tool for tool in agent.tools if any(word in tool for word in WRITING)}

            assert writing == set(agent.interrupt_on), agent.name

    def test_each_needs_a_credential(self):
        needed = {agent.name: agent.variables or agent.requires_any for agent in read(None)}

        assert needed["github"] == ("GITHUB_PERSONAL_ACCESS_TOKEN",)
        assert needed["splunk"] == ("SPLUNK_MCP_URL", "SPLUNK_MCP_TOKEN")
        assert all(needed.values())


class TestExclude:
    @pytest.mark.parametrize("name", ["fact_extraction", "FACT_EXTRACTION", "fact-extraction"])
    def test_fact_extraction_is_no_agent(self, name: str):
        found = declared({name: LEAST, "other": LEAST}, origin="agents.toml")

        assert [one.name for one in found] == ["other"]


class TestRefuse:
    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"tools": None}, "tools"),
            ({"tools": []}, "tools"),
            ({"prompt": ""}, "prompt"),
            ({"temperature": 0}, "temperature"),
            ({"url": None}, "either a command or a url"),
            ({"command": ["server"]}, "either a command or a url"),
            ({"url": "http://mcp.example.org/mcp"}, "https://"),
            ({"url": "mcp.example.org"}, "https://"),
            ({"url": None, "command": ["server"], "headers": {"X": "y"}}, "headers need a url"),
            ({"environment": ["HOME"]}, "environment belongs to a command"),
            ({"interrupt_on": ["delete"]}, "'delete', which is not one of its tools"),
            ({"headers": {"Authorization": "Bearer abc"}}, "header Authorization contains a credential"),
            ({"headers": {"X-Api-Key": "abc"}}, "header X-Api-Key contains a credential"),
            ({"url": f"https://mcp.example.org/{TOKEN}"}, "contains a secret"),
            ({"url": None, "command": ["server", "--token", TOKEN]}, "contains a secret"),
            ({"timeout_seconds": 0}, "timeout_seconds"),
            ({"requires_any": ["NOT A NAME"]}, "requires_any"),
        ],
    )
    def test_agent_and_key_are_named(self, changed: dict[str, Any], said: str):
        with pytest.raises(SettingsError) as refused:
            one(**changed)

        assert str(refused.value).startswith("agents.toml: it: ")
        assert said in str(refused.value)
        assert TOKEN not in str(refused.value)

    @pytest.mark.parametrize("name", ["", "Git Hub", "ünter", "x" * 65])
    def test_a_name_is_an_identifier(self, name: str):
        with pytest.raises(SettingsError, match="an agent's name"):
            declared({name: LEAST}, origin="agents.toml")

    def test_a_key_outside_of_every_table(self):
        with pytest.raises(SettingsError, match="is outside"):
            declared({"model": "openai:gpt"}, origin="agents.toml")

    def test_a_file_that_is_not_there(self, tmp_path: Path):
        with pytest.raises(SettingsError, match="cannot be read"):
            read(tmp_path / "agents.toml")

    @pytest.mark.parametrize("content", [b"[github", b"\xff\xfe", b'[a]\nx = "1"\n[a]\n'])
    def test_a_file_that_is_no_toml(self, tmp_path: Path, content: bytes):
        (tmp_path / "agents.toml").write_bytes(content)

        with pytest.raises(SettingsError, match="is not a valid TOML file"):
            read(tmp_path / "agents.toml")
