"""``threadkeep mcp``: the official client over standard input and output, and the user who confirms."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, types
from mcp.shared.context import RequestContext
from pydantic import AnyUrl

from tests.command_line import CliRunner
from tests.mcp_server.test_tools import call, refusal
from tests.processes import PIPE, THREADKEEP, start_python
from threadkeep.cli.main import app
from threadkeep.mcp_server.clients import configurations

Answer = types.ElicitResult


class User:
    """Answers the questions of the server, one after the other.

    Attributes:
        questions: What was asked.
    """

    def __init__(self, *answers: Answer | types.ErrorData) -> None:
        self.questions: list[str] = []
        self._answers = list(answers)

    async def __call__(
        self, context: RequestContext[ClientSession, Any], params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        del context
        self.questions.append(params.message)
        return self._answers.pop(0)


AGREED = Answer(action="accept", content={"agreed": True})


class TestClient:
    @pytest.mark.long
    async def test_everything_is_offered(self, open_command: Any, open_stdio: Any):
        """The user is the one of the operating system; what is kept is there for the next client."""
        async with open_command() as client:
            proposed = await call(client, "remember", text="I drink green tea.")
            assert proposed["status"] == "proposed"
            denied = await refusal(client, "decide_proposal", proposal_id=proposed["proposal_id"], approve=True)
            assert denied[0] == "scope_required"
        async with open_stdio("--review", "--user", getpass.getuser()) as client:
            await call(client, "decide_proposal", proposal_id=proposed["proposal_id"], approve=True)
            (found,) = (await call(client, "search_memory", query="green tea"))["found"]
            assert found["memory"]["text"] == "I drink green tea."
            profile = (await client.read_resource(AnyUrl("memory://profile"))).contents[0]
            assert isinstance(profile, types.TextResourceContents)
            assert "I drink green tea." in profile.text
            assert "green tea" in (await client.get_prompt("recall", {"question": "Which tea?"})).model_dump_json()

    async def test_two_users(self, open_stdio: Any):
        async with open_stdio("--user", "ana") as ana, open_stdio("--user", "bo") as bo:
            await call(ana, "propose_memory_update", text="Ana drinks green tea.")
            (proposal,) = (await call(ana, "list_proposals"))["proposals"]
            assert (await call(bo, "list_proposals", state="all"))["proposals"] == []
            theirs = await refusal(bo, "why", memory_id=proposal["memory_id"])
        assert theirs == ("memory_not_found", "Error (memory_not_found): There is no memory with this id.")


class TestConfirmation:
    async def test_agreed(self, open_stdio: Any):
        """What the user confirms is kept at once, and names who approved it."""
        user = User(AGREED, AGREED)
        async with open_stdio("--user", "ana", elicitation_callback=user) as client:
            kept = await call(client, "remember", text="Ana drinks green tea.")
            corrected = await call(client, "correct_memory", memory_id=kept["memory_id"], text="Ana drinks black tea.")
            why = await call(client, "why", memory_id=kept["memory_id"])

        assert user.questions == [
            "Remember “Ana drinks green tea.”?",
            "Replace “Ana drinks green tea.” by “Ana drinks black tea.”?",
        ]
        assert (kept["status"], corrected["status"]) == ("accepted", "accepted")
        memory = why["memory"]
        assert (memory["text"], memory["trust"], memory["approved_by"]) == ("Ana drinks black tea.", "assistant", "ana")

    async def test_not_agreed(self, open_stdio: Any):
        """A refused statement is rejected; one that the user leaves open waits."""
        texts = ("Ana drinks tea.", "Ana lives in Rome.", "Ana plays the oboe.", "Ana owns a quagga.", "Ana is tall.")
        answers = (
            Answer(action="decline"),
            Answer(action="accept", content={"agreed": False}),
            Answer(action="accept", content={}),
            Answer(action="cancel"),
            types.ErrorData(code=-32603, message="The window is closed."),
        )
        user = User(*answers)
        async with open_stdio("--user", "ana", elicitation_callback=user) as client:
            statuses = [(await call(client, "remember", text=text))["status"] for text in texts]
            proposals = (await call(client, "list_proposals", state="all"))["proposals"]
            listed = await call(client, "list_memories")

        assert statuses == ["rejected", "rejected", "rejected", "proposed", "proposed"]
        states = {one["text"]: one["state"] for one in proposals}
        assert [states[text] for text in texts] == ["rejected", "rejected", "rejected", "pending", "pending"]
        assert listed["memories"] == []
        assert len(user.questions) == 5

    async def test_known_statements_are_not_asked_about(self, open_stdio: Any):
        user = User(AGREED)
        async with open_stdio("--user", "ana", elicitation_callback=user) as client:
            await call(client, "remember", text="Ana drinks green tea.")
            again = await call(client, "remember", text="Ana drinks green tea.")
        assert (again["status"], len(user.questions)) == ("duplicate", 1)


class TestProcess:
    def test_invalid_lines_do_not_end_it(self, tmp_path: Path):
        """It answers the next request, writes nothing but messages, and ends with its input."""
        half = [
            json.dumps({"jsonrpc": "2.0", "id": one, "method": "prompts/get", "params": {"name": "\ud83d"}})
            for one in (None, "\ud83d", 3)
        ]
        lines = ["", "{", "null", "[]", '{"jsonrpc": "2.0"}', "\ufffd" * 10, "[" * 1_000, "x" * 1_000_000, *half]
        requests = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
            | {"params": {"protocolVersion": "1", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        ]
        sent = "\n".join([*(json.dumps(one) for one in requests[:2]), *lines, json.dumps(requests[2]), ""])
        with start_python(*THREADKEEP, "mcp", "--data-dir", tmp_path, stdin=PIPE, stdout=PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(sent)
            process.stdin.flush()
            answers = [json.loads(process.stdout.readline())]
            while answers[-1].get("id") != 2:
                answers.append(json.loads(process.stdout.readline()))
            process.stdin.close()
            assert process.wait(30) == 0

        assert answers[0]["result"]["protocolVersion"] == types.LATEST_PROTOCOL_VERSION
        assert [one["error"]["code"] for one in answers if one.get("id") == 3] == [types.PARSE_ERROR]
        assert answers[-1]["result"] == {}

    @pytest.mark.parametrize(("missing", "expected"), [("mcp", 'pip install "threadkeep[mcp]"'), ("fastapi", "")])
    def test_missing_packages(self, tmp_path: Path, missing: str, expected: str):
        """Without the extra the command is named; the packages of the gateway are not needed."""
        program = f"import sys; sys.modules[{missing!r}] = None; {THREADKEEP[-1]}"
        command = [sys.executable, "-c", program, "mcp", "--data-dir", str(tmp_path)]
        done = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == (2 if expected else 0), done.stderr[-500:]
        assert expected in " ".join(done.stderr.split())


class TestInit:
    def test_configurations(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
    ):
        """Each is JSON that starts `threadkeep mcp`, or names the gateway; no file is written."""
        monkeypatch.chdir(tmp_path)
        program = tmp_path_factory.mktemp("bin") / "threadkeep"
        program.touch(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}/../{program.parent.name}", prepend=os.pathsep)
        printed = CliRunner().invoke(app, ["init", "mcp", "--json"])
        entries = json.loads(printed.stdout)

        assert printed.exit_code == 0
        assert {entry["client"].partition(",")[0] for entry in entries} == {
            "Claude Desktop",
            "Claude Code",
            "Cursor",
            "VS Code",
        }
        for entry in entries:
            (servers,) = entry["configuration"].values()
            server = servers["threadkeep"]
            assert server.get("args", ["mcp"]) == ["mcp"]
            assert server["command"] == str(program) if "command" in server else server["url"].endswith("/mcp")
        assert list(tmp_path.iterdir()) == []

    def test_lines_can_be_copied(self):
        """What is printed for people holds the same JSON, unbroken."""
        text = CliRunner().invoke(app, ["init", "mcp"]).stdout
        assert "--user me" in text
        decoder = json.JSONDecoder()
        blocks = [decoder.raw_decode(text[at + 1 :])[0] for at in range(len(text)) if text[at : at + 2] == "\n{"]
        assert blocks == [entry["configuration"] for entry in configurations()]

    def test_a_folder_called_mcp(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.chdir(tmp_path)
        assert CliRunner().invoke(app, ["init", "./mcp"]).exit_code == 0
        assert (tmp_path / "mcp" / "langgraph.json").exists()
