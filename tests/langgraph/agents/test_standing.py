"""Which declared agents can be used, and why others cannot."""

from __future__ import annotations

import json
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import threadkeep
from tests.langgraph.agents.conftest import VARIABLES
from tests.langgraph.agents.vendors import NOT_DECLARED, Vendors
from tests.processes import forked_python
from threadkeep.langgraph.agent_servers import AgentStatus

ORDER = ["github", "gitlab", "slack", "aws", "splunk"]


def by_name(standing: list[AgentStatus]) -> dict[str, AgentStatus]:
    return {one.name: one for one in standing}


def only(path: Path, name: str, **changed: str) -> Path:
    """Write a file that declares one agent."""
    keys = {"description": '"d"', "prompt": '"p"', "tools": '["look"]', **changed}
    path.write_text(f"[{name}]\n" + "\n".join(f"{key} = {value}" for key, value in keys.items()), "utf-8")
    return path


@pytest.fixture
def silent() -> Iterator[int]:
    """Return the port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


class TestReady:
    async def test_each_is_given_what_is_declared_and_nothing_more(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("AWS_PROFILE", "readonly")

        standing = await tk.agents.standing(file)

        assert {one.name: one.reason for one in standing} == dict.fromkeys(
            ("github", "gitlab", "slack", "aws", "splunk"), ""
        )
        for one in standing:
            assert tuple(tool.name for tool in one.tools) == one.declaration.tools
            assert NOT_DECLARED not in one.declaration.tools

    async def test_the_file_may_be_a_setting(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        monkeypatch.setenv("THREADKEEP_AGENTS", str(only(tmp_path / "one.toml", "one", url='"https://x.example/mcp"')))
        with threadkeep.open("memory://", embedder="none") as other:
            assert [one.name for one in other.agents.declared()] == ["one"]


class TestDisabled:
    @pytest.mark.parametrize("variable", VARIABLES)
    async def test_for_want_of_a_credential(
        self,
        tk: threadkeep.Threadkeep,
        file: Path,
        variable: str,
        monkeypatch: pytest.MonkeyPatch,
    ):
        monkeypatch.delenv(variable)
        name = variable.split("_", maxsplit=1)[0].lower()

        standing = by_name(await tk.agents.standing(file))

        assert standing[name].reason == f"{variable} is not set; set it to use the agent."
        assert [one.name for one in standing.values() if not one.ready] == sorted([name, "aws"], key=ORDER.index)

    async def test_for_want_of_any_of_several(self, tk: threadkeep.Threadkeep, file: Path):
        aws = by_name(await tk.agents.standing(file))["aws"]

        assert aws.reason.startswith("None of AWS_PROFILE, AWS_ACCESS_KEY_ID, ")

    async def test_by_its_switch(self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ENABLE_GITHUB", "false")

        github = by_name(await tk.agents.standing(file))["github"]

        assert (github.reason, github.off) == ("ENABLE_GITHUB is false.", True)

    async def test_by_a_server_that_refuses_the_credential(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level(logging.DEBUG)
        wrong = "a-token-that-nobody-gave-7f3a"
        monkeypatch.setenv("SLACK_MCP_TOKEN", wrong)

        slack = by_name(await tk.agents.standing(file))["slack"]

        assert slack.reason.endswith("refuses the credential (401); check SLACK_MCP_TOKEN.")
        assert wrong not in slack.reason + caplog.text

    async def test_by_a_server_that_is_out_of_order(self, tk: threadkeep.Threadkeep, file: Path, vendors: Vendors):
        vendors.failing.add("gitlab")

        standing = by_name(await tk.agents.standing(file))

        assert (
            standing["gitlab"].reason == f"Its server at http://127.0.0.1:{vendors.port} did not answer (status 503)."
        )
        assert [one.name for one in standing.values() if not one.ready] == ["gitlab", "aws"]

    async def test_by_a_server_that_is_not_there(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]

        [one] = await tk.agents.standing(only(tmp_path / "a.toml", "it", url=f'"http://127.0.0.1:{port}/mcp?key=17"'))

        assert one.reason == f"Its server at http://127.0.0.1:{port} did not answer (ConnectError)."

    async def test_by_a_server_that_is_silent(self, tk: threadkeep.Threadkeep, tmp_path: Path, silent: int):
        file = only(tmp_path / "a.toml", "it", url=f'"http://127.0.0.1:{silent}/mcp"', timeout_seconds="0.3")

        [one] = await tk.agents.standing(file)

        assert f"127.0.0.1:{silent} did not answer" in one.reason

    async def test_by_a_command_that_is_not_installed(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        [one] = await tk.agents.standing(only(tmp_path / "a.toml", "it", command='["no-such-program-17"]'))

        assert one.reason == "Its command no-such-program-17 is not installed here, or may not be run."

    async def test_by_a_command_that_ends_at_once(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        [one] = await tk.agents.standing(only(tmp_path / "a.toml", "it", command=f'["{sys.executable}", "-c", ""]'))

        assert one.reason.startswith(f"Its command {sys.executable} did not answer (")

    @pytest.mark.slow
    async def test_by_a_server_without_its_tools(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        command = json.dumps([str(forked_python(tmp_path)), "-m", "tests.langgraph.agents.vendors", "aws"])

        [one] = await tk.agents.standing(only(tmp_path / "a.toml", "it", command=command))

        assert one.reason == "Its server offers none of the tools that it is declared with."

    async def test_by_an_address_that_anybody_could_listen_to(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("SPLUNK_MCP_URL", "http://splunk.example.org:8089/services/mcp")

        splunk = by_name(await tk.agents.standing(file))["splunk"]

        assert splunk.reason.startswith("SPLUNK_MCP_URL")
        assert "https://" in splunk.reason

    async def test_by_a_credential_that_would_be_filled_in_again(
        self, tk: threadkeep.Threadkeep, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        monkeypatch.setenv("AWS_PROFILE", "readonly")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "abc${HOME}${NOWHERE}")

        aws = by_name(await tk.agents.standing(file))["aws"]

        assert aws.reason.startswith("AWS_SESSION_TOKEN has ${")
        assert "NOWHERE" not in caplog.text


class TestPartly:
    @pytest.mark.slow
    async def test_a_tool_that_is_gone_leaves_the_others(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        command = json.dumps([str(forked_python(tmp_path)), "-m", "tests.langgraph.agents.vendors", "aws"])
        file = only(tmp_path / "a.toml", "it", command=command, tools='["aws___list_regions", "aws___gone"]')

        [one] = await tk.agents.standing(file)

        assert [tool.name for tool in one.tools] == ["aws___list_regions"]
        assert "The server of the agent it offers no tool aws___gone" in caplog.text
