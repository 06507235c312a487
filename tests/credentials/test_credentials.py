"""Credentials of users for MCP servers, with a real server and its authorization server, for two users."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import langsmith.run_helpers  # noqa: F401 - a tool's first call would import it in a task, where Python 3.11 cannot
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient

import threadkeep
from tests.command_line import CliRunner, Result
from tests.credentials.mcp_oauth import REDIRECT_URI, McpServer, serving_mcp
from threadkeep.cli.main import app
from threadkeep.clock import Clock, SystemClock
from threadkeep.errors import (
    AgentUnavailableError,
    CredentialRequiredError,
    InvalidInputError,
    SettingsError,
    ThreadkeepError,
)
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, ScriptedModel

KEY = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def running_server() -> Iterator[McpServer]:
    with serving_mcp() as server:
        yield server


@pytest.fixture
def server(running_server: McpServer) -> McpServer:
    """The server, of which no user has given anything."""
    running_server.users.__init__()
    return running_server


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


@pytest.fixture
async def tk(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[threadkeep.Threadkeep]:
    async with opened(tmp_path, clock) as client:
        yield client


def opened(folder: Path, clock: Clock) -> threadkeep.Threadkeep:
    settings = Settings(THREADKEEP_MASTER_KEY=KEY)
    return threadkeep.open(f"sqlite:///{folder}/m.db", embedder="none", settings=settings, clock=clock)


async def connect(tk: threadkeep.Threadkeep, server: McpServer, user: str) -> None:
    begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner=user)
    state, code = await asyncio.to_thread(server.consent, begun.url, user)
    assert state == begun.state
    await tk.credentials.finish(state=state, code=code, owner=user)


async def whoami(tk: threadkeep.Threadkeep, server: McpServer, user: str) -> str:
    """Call the tool by LangChain's own client, as *user*."""
    auth = tk.credentials.auth(server.url, owner=user)
    client = MultiServerMCPClient({"billing": {"transport": "streamable_http", "url": server.url, "auth": auth}})
    try:
        (tool,) = await client.get_tools()
        return str((await tool.ainvoke({}))[0]["text"])
    except BaseExceptionGroup as group:
        raise leaf(group) from None


def leaf(error: BaseException) -> BaseException:
    return leaf(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class TestConnecting:
    async def test_each_user_reaches_the_server_as_themselves(self, tk: threadkeep.Threadkeep, server: McpServer):
        await connect(tk, server, "ana")
        await connect(tk, server, "bob")

        assert await whoami(tk, server, "ana") == "invoices of ana"
        assert await whoami(tk, server, "bob") == "invoices of bob"
        (credential,) = await tk.credentials.list(owner="ana")
        assert (credential.server, credential.state, credential.connected_at) == (server.url, "connected", START)

    async def test_another_process_finishes_what_one_began(
        self, tk: threadkeep.Threadkeep, server: McpServer, tmp_path: Path, clock: FrozenClock
    ):
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        state, code = await asyncio.to_thread(server.consent, begun.url, "ana")

        async with opened(tmp_path, clock) as other:
            await other.credentials.finish(state=state, code=code, owner="ana")

        assert await whoami(tk, server, "ana") == "invoices of ana"

    async def test_the_consent_is_asked_with_pkce_and_for_the_server(
        self, tk: threadkeep.Threadkeep, server: McpServer
    ):
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")

        query = {name: values[0] for name, values in parse_qs(urlsplit(begun.url).query).items()}
        assert (query["code_challenge_method"], query["state"], query["resource"]) == ("S256", begun.state, server.url)
        assert len(query["code_challenge"]) == 43

    async def test_a_user_who_connects_again_registers_no_second_client(
        self, tk: threadkeep.Threadkeep, server: McpServer
    ):
        await connect(tk, server, "ana")
        await connect(tk, server, "ana")

        assert len(server.users.clients) == 1
        assert len(await tk.credentials.list(owner="ana")) == 1

    async def test_a_client_of_the_administrator_is_used(self, tk: threadkeep.Threadkeep, server: McpServer):
        async with httpx.AsyncClient() as http:
            made = (
                await http.post(server.url.replace("/mcp", "/register"), json={"redirect_uris": [REDIRECT_URI]})
            ).json()

        begun = await tk.credentials.begin(
            server.url,
            redirect_uri=REDIRECT_URI,
            owner="ana",
            client_id=made["client_id"],
            client_secret=made["client_secret"],
        )
        state, code = await asyncio.to_thread(server.consent, begun.url, "ana")
        await tk.credentials.finish(state=state, code=code, owner="ana")

        assert len(server.users.clients) == 1
        assert await whoami(tk, server, "ana") == "invoices of ana"


class TestRefusals:
    async def test_a_forged_state_is_refused(self, tk: threadkeep.Threadkeep, server: McpServer):
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        _, code = await asyncio.to_thread(server.consent, begun.url, "ana")

        with pytest.raises(CredentialRequiredError, match="state"):
            await tk.credentials.finish(state="forged", code=code, owner="ana")

    async def test_the_state_of_another_user_is_refused(self, tk: threadkeep.Threadkeep, server: McpServer):
        """Otherwise Bob's agent could be made to work with the account of an attacker."""
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="mallory")
        state, code = await asyncio.to_thread(server.consent, begun.url, "mallory")

        with pytest.raises(CredentialRequiredError, match="state"):
            await tk.credentials.finish(state=state, code=code, owner="bob")

        assert await tk.credentials.list(owner="bob") == []

    async def test_a_state_is_good_once_and_for_ten_minutes(
        self, tk: threadkeep.Threadkeep, server: McpServer, clock: FrozenClock
    ):
        await connect(tk, server, "ana")
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        state, code = await asyncio.to_thread(server.consent, begun.url, "ana")
        with pytest.raises(CredentialRequiredError, match="refused the code"):
            await tk.credentials.finish(state=state, code="wrong", owner="ana")
        with pytest.raises(CredentialRequiredError, match="state"):
            await tk.credentials.finish(state=state, code=code, owner="ana")
        late = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        clock.advance(timedelta(minutes=11))
        with pytest.raises(CredentialRequiredError, match="state"):
            await tk.credentials.finish(state=late.state, code=code, owner="ana")

        assert await whoami(tk, server, "ana") == "invoices of ana"

    async def test_a_code_of_another_issuer_is_refused(self, tk: threadkeep.Threadkeep, server: McpServer):
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        state, code = await asyncio.to_thread(server.consent, begun.url, "ana")

        with pytest.raises(CredentialRequiredError, match="another authorization server"):
            await tk.credentials.finish(state=state, code=code, issuer="https://evil.example", owner="ana")

    async def test_without_encryption_no_token_is_kept(self, server: McpServer, tmp_path: Path):
        async with threadkeep.open(f"sqlite:///{tmp_path}/plain.db", embedder="none") as tk:
            with pytest.raises(SettingsError, match="THREADKEEP_MASTER_KEY"):
                await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        allowed = Settings(THREADKEEP_PLAIN_CREDENTIALS=True)
        async with threadkeep.open("memory://", embedder="none", settings=allowed) as tk:
            await connect(tk, server, "ana")
            assert await whoami(tk, server, "ana") == "invoices of ana"

    @pytest.mark.parametrize(
        ("url", "message"),
        [("http://mcp.example.org/mcp", "https://"), ("ftp://x", "https://"), ("", "https://")],
    )
    async def test_a_server_that_others_can_listen_to_is_refused(
        self, tk: threadkeep.Threadkeep, url: str, message: str
    ):
        with pytest.raises(InvalidInputError, match=message):
            await tk.credentials.begin(url, redirect_uri=REDIRECT_URI, owner="ana")

    async def test_a_server_that_does_not_answer_is_named(self, tk: threadkeep.Threadkeep):
        with pytest.raises(AgentUnavailableError, match=r"http://127\.0\.0\.1:9/mcp did not answer"):
            await tk.credentials.begin("http://127.0.0.1:9/mcp", redirect_uri=REDIRECT_URI, owner="ana")

    async def test_a_token_is_sent_to_its_server_only(self, tk: threadkeep.Threadkeep, server: McpServer):
        await connect(tk, server, "ana")
        auth = tk.credentials.auth(server.url, owner="ana")

        async with httpx.AsyncClient(auth=auth) as client:
            with pytest.raises(InvalidInputError, match="another server"):
                await client.get("http://127.0.0.1:9/mcp")


class TestExpiry:
    async def test_an_expired_token_is_refreshed(
        self, tk: threadkeep.Threadkeep, server: McpServer, clock: FrozenClock
    ):
        await connect(tk, server, "ana")
        server.users.access.clear()
        clock.advance(timedelta(hours=2))

        assert await whoami(tk, server, "ana") == "invoices of ana"
        assert (server.users.refreshed, server.users.reused) == (1, 0)

    async def test_a_token_that_is_refused_early_is_refreshed_once(self, tk: threadkeep.Threadkeep, server: McpServer):
        await connect(tk, server, "ana")
        server.users.access.clear()

        assert await whoami(tk, server, "ana") == "invoices of ana"
        assert server.users.refreshed == 1

    async def test_a_refresh_token_is_never_used_twice(
        self, tk: threadkeep.Threadkeep, server: McpServer, clock: FrozenClock, tmp_path: Path
    ):
        """Not by ten calls at once, in two processes: many servers end the access then."""
        await connect(tk, server, "ana")
        clock.advance(timedelta(hours=2))
        server.users.seconds = 0.5

        async with opened(tmp_path, clock) as other:
            said = await asyncio.gather(*(whoami(one, server, "ana") for one in (tk, other) * 5))

        assert set(said) == {"invoices of ana"}
        assert (server.users.refreshed, server.users.reused) == (1, 0)

    async def test_a_token_that_was_revoked_is_one_clear_error(self, tk: threadkeep.Threadkeep, server: McpServer):
        """The user connects again; the access of the other user stays."""
        await connect(tk, server, "ana")
        await connect(tk, server, "bob")
        server.users.end("ana")

        for _ in range(2):
            with pytest.raises(CredentialRequiredError, match=r"has ended its access.*tk\.credentials\.begin"):
                await whoami(tk, server, "ana")

        assert [one.state for one in await tk.credentials.list(owner="ana")] == ["ended"]
        assert await whoami(tk, server, "bob") == "invoices of bob"
        await connect(tk, server, "ana")
        assert await whoami(tk, server, "ana") == "invoices of ana"

    async def test_an_authorization_server_that_is_away_loses_nothing(
        self, tk: threadkeep.Threadkeep, server: McpServer, clock: FrozenClock
    ):
        await connect(tk, server, "ana")
        clock.advance(timedelta(hours=2))
        server.users.answers = False
        with pytest.raises(AgentUnavailableError, match="try again"):
            await whoami(tk, server, "ana")

        server.users.answers = True

        assert await whoami(tk, server, "ana") == "invoices of ana"

    async def test_a_user_who_never_connected_is_asked_to(self, tk: threadkeep.Threadkeep, server: McpServer):
        with pytest.raises(CredentialRequiredError, match="is not connected"):
            await whoami(tk, server, "ana")


class TestKeeping:
    async def test_revoking_ends_the_token_at_the_server_too(self, tk: threadkeep.Threadkeep, server: McpServer):
        await connect(tk, server, "ana")

        assert await tk.credentials.revoke(server.url, owner="ana")

        assert len(server.users.revoked) == 1
        assert server.users.access == {}
        assert await tk.credentials.list(owner="ana") == []
        assert not await tk.credentials.revoke(server.url, owner="ana")

    async def test_tokens_are_nowhere_in_clear(
        self, tk: threadkeep.Threadkeep, server: McpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level("DEBUG", logger="threadkeep")
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        await connect(tk, server, "ana")
        await whoami(tk, server, "ana")
        secrets = [*server.users.access, *server.users.refresh, begun.state]
        secrets += [str(one.client_secret) for one in server.users.clients.values()]
        await tk.aclose()

        stored = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.iterdir()))
        shown = caplog.text + repr(await _list(tmp_path))
        assert len(secrets) >= 4
        assert [one for one in secrets if one.encode() in stored or one in shown] == []

    async def test_an_export_tells_of_the_server_and_not_of_the_token(
        self, tk: threadkeep.Threadkeep, server: McpServer
    ):
        await connect(tk, server, "ana")
        await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")

        rows = [row async for row in tk.owners.export(owner="ana")]

        (row,) = [row for row in rows if row["type"] == "credential"]
        assert (row["value"]["server"], row["value"]["state"]) == (server.url, "connected")
        text = json.dumps(rows)
        assert not any(token in text for token in (*server.users.access, *server.users.refresh, "verifier", "secret"))

    async def test_erasing_the_owner_removes_credentials(self, tk: threadkeep.Threadkeep, server: McpServer):
        await connect(tk, server, "ana")
        await connect(tk, server, "bob")

        await tk.owners.erase("ana")

        assert await tk.credentials.list(owner="ana") == []
        assert len(await tk.credentials.list(owner="bob")) == 1
        with pytest.raises(CredentialRequiredError):
            await whoami(tk, server, "ana")

    async def test_a_client_of_one_user_reaches_no_other(self, tk: threadkeep.Threadkeep, server: McpServer):
        await connect(tk, server, "bob")
        ana = tk.for_owner("ana")

        with pytest.raises(ThreadkeepError):
            ana.credentials.auth(server.url, owner="bob")
        with pytest.raises(InvalidInputError, match="belongs to a user"):
            await tk.credentials.list(owner=threadkeep.Owner("ops", kind="team"))
        assert await ana.credentials.list() == []


async def _list(folder: Path) -> Any:
    async with opened(folder, FrozenClock(START)) as tk:
        return await tk.credentials.list(owner="ana")


async def history(tk: threadkeep.Threadkeep, owner: str = "ana") -> list[tuple[Any, ...]]:
    """Return the audit, oldest first: the actor, and each change with its thing and state."""
    entries = reversed(await tk.owners.audit(owner))
    return [
        (entry.by, one.what, one.thing, (one.state or {}).get("state")) for entry in entries for one in entry.changes
    ]


class TestAudit:
    async def test_every_change_of_an_access_is_in_the_audit_without_a_secret(
        self, tk: threadkeep.Threadkeep, server: McpServer, clock: FrozenClock
    ):
        """Connected, refreshed, ended by the server, connected again and revoked; the chain holds."""
        await connect(tk, server, "ana")
        clock.advance(timedelta(hours=2))
        await whoami(tk, server, "ana")
        tokens = [*server.users.access, *server.users.refresh]
        server.users.end("ana")
        with pytest.raises(CredentialRequiredError):
            await whoami(tk, server, "ana")
        await connect(tk, server, "ana")
        tokens += [*server.users.access, *server.users.refresh]
        await tk.credentials.revoke(server.url, owner="ana")

        assert await history(tk) == [
            ("user", "written", "credential", "connected"),
            ("oauth", "changed", "credential", "connected"),
            ("oauth", "changed", "credential", "ended"),
            ("user", "written", "credential", "connected"),
            ("user", "removed", "credential", None),
        ]
        entries = await tk.owners.audit("ana")
        assert {entry.why for entry in entries} == {f"server:{server.url}"}
        assert not any(token in str(entries) for token in tokens)
        assert (await tk.owners.verify_audit("ana")).fault is None
        assert await history(tk, "bob") == []

    async def test_a_refused_code_is_in_the_audit(self, tk: threadkeep.Threadkeep, server: McpServer):
        begun = await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
        state, _ = await asyncio.to_thread(server.consent, begun.url, "ana")

        with pytest.raises(CredentialRequiredError, match="refused the code"):
            await tk.credentials.finish(state=state, code="forged-code", owner="ana")

        (entry,) = await tk.owners.audit("ana")
        assert (entry.by, entry.why, entry.changes[0].id) == ("oauth", f"server:{server.url}", "credential-refused")
        assert "forged-code" not in str(entry)

    async def test_learning_and_refreshing_at_once_lose_neither(
        self, tk: threadkeep.Threadkeep, server: McpServer, clock: FrozenClock
    ):
        """Both write the end of the owner's chain."""
        await connect(tk, server, "ana")
        clock.advance(timedelta(hours=2))

        facts = [tk.memories.remember(f"I own boat {n}.", owner="ana") for n in range(10)]
        said, *_ = await asyncio.gather(whoami(tk, server, "ana"), *facts)

        assert said == "invoices of ana"
        assert len(await tk.memories.list(owner="ana")) == 10
        assert (await tk.owners.verify_audit("ana")).fault is None


def command(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


class TestCommands:
    """The commands read another process's storage: what one client connected is listed, revoked and copied."""

    @pytest.fixture
    async def folder(self, tmp_path: Path, server: McpServer, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder with the access of two users, a consent that is under way, and some memory."""
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", KEY)
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", f"{tmp_path}/m.db")
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")
        async with opened(tmp_path, SystemClock()) as tk:
            await connect(tk, server, "ana")
            await connect(tk, server, "bob")
            await tk.credentials.begin(server.url, redirect_uri=REDIRECT_URI, owner="ana")
            await tk.memories.remember("I live in Rome.", owner="ana")
        return tmp_path

    async def test_list_and_revoke(self, folder: Path, server: McpServer):
        listed = await asyncio.to_thread(command, "credentials", "list", "--user", "ana", "--json")
        shown = await asyncio.to_thread(command, "credentials", "list", "--user", "ana")
        asked = await asyncio.to_thread(command, "credentials", "revoke", server.url, "--user", "ana")
        revoked = await asyncio.to_thread(command, "credentials", "revoke", server.url, "--user", "ana", "--yes")
        again = await asyncio.to_thread(command, "credentials", "revoke", server.url, "--user", "ana", "--yes")
        other = await asyncio.to_thread(command, "credentials", "list", "--user", "bob", "--json")

        (row,) = json.loads(listed.stdout)
        assert (row["server"], row["state"]) == (server.url, "connected")
        assert f"{server.url}  connected since 2" in shown.stdout
        assert not any(token in listed.stdout for token in (*server.users.access, *server.users.refresh))
        assert f"Revoke the access of ana to {server.url}" in asked.stderr
        assert "Revoked and deleted" in revoked.stdout
        assert "has not connected" in again.stdout
        assert len(json.loads(other.stdout)) == 1
        assert len(server.users.access) == 1

    async def test_a_copy_into_a_storage_without_encryption_holds_no_token(self, folder: Path, server: McpServer):
        """What is left out is reported, and everything else is there; into an encrypted storage all of it goes."""
        tokens = [*server.users.access, *server.users.refresh]
        plain = ["storage", "copy", "--from", f"sqlite:///{folder}/m.db", "--to", f"sqlite:///{folder}/plain.db"]
        copied = await asyncio.to_thread(command, *plain, "--to-unsealed", "--json")
        sealed = [*plain[:-1], f"sqlite:///{folder}/sealed.db"]
        whole = await asyncio.to_thread(command, *sealed, "--json")

        report = json.loads(copied.stdout)
        assert (copied.exit_code, report["complete"], len(report["left_out"])) == (1, False, 3)
        assert "THREADKEEP_PLAIN_CREDENTIALS=true" in str(report["left_out"][0])
        assert (report["unequal"], report["verified"]) == (0, report["read"])
        stored = (folder / "plain.db").read_bytes()
        assert b"I live in Rome." in stored
        assert not any(token.encode() in stored for token in (*tokens, "verifier"))
        assert (whole.exit_code, json.loads(whole.stdout)["read"]) == (0, report["read"] + 3)

    async def test_a_setting_lets_a_copy_hold_tokens(
        self, folder: Path, server: McpServer, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("THREADKEEP_PLAIN_CREDENTIALS", "true")
        words = ["storage", "copy", "--from", f"sqlite:///{folder}/m.db", "--to", f"sqlite:///{folder}/plain.db"]

        copied = await asyncio.to_thread(command, *words, "--to-unsealed", "--json")

        assert (copied.exit_code, json.loads(copied.stdout)["left_out"]) == (0, [])
        assert next(iter(server.users.access)).encode() in (folder / "plain.db").read_bytes()


AGENT = """
[billing]
description = "Invoices."
prompt = "You look up invoices."
url = "{url}"
oauth = true
tools = ["whoami"]
"""


class TestAgents:
    async def test_an_agent_works_with_the_credential_of_its_user(
        self, tk: threadkeep.Threadkeep, server: McpServer, tmp_path: Path
    ):
        """A user that has not connected gets an error that says so; the client of all users cannot use it."""
        file = tmp_path / "agents.toml"
        file.write_text(AGENT.format(url=server.url))
        await connect(tk, server, "ana")
        ana, bob = tk.for_owner("ana"), tk.for_owner("bob")

        (ready,) = await ana.agents.standing(file)
        (missing,) = await bob.agents.standing(file)
        (shared,) = await tk.agents.standing(file)

        assert str((await ready.tools[0].ainvoke({}))[0]["text"]) == "invoices of ana"
        assert "is not connected" in missing.reason
        assert "tk.for_owner(user).agents" in shared.reason

    async def test_the_result_of_a_tool_says_that_access_has_ended(
        self, tk: threadkeep.Threadkeep, server: McpServer, tmp_path: Path
    ):
        file = tmp_path / "agents.toml"
        file.write_text(AGENT.format(url=server.url))
        await connect(tk, server, "ana")
        (ready,) = await tk.for_owner("ana").agents.standing(file)
        server.users.end("ana")

        said = await ready.tools[0].ainvoke({})

        assert "The user has to connect billing again; nothing was done." in str(said)

    async def test_a_header_and_a_command_need_no_oauth(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        file = tmp_path / "agents.toml"
        header = 'headers = { Authorization = "Bearer ${T}" }'
        file.write_text(AGENT.format(url="https://mcp.example.org") + header)

        with pytest.raises(SettingsError, match="oauth needs a url, and no header Authorization"):
            tk.agents.declared(file)


class TestPerRunOwner:
    """One graph for all owners: each run has the tools of an agent with the access of its owner."""

    @pytest.fixture
    def file(self, server: McpServer, tmp_path: Path) -> Path:
        file = tmp_path / "agents.toml"
        file.write_text(AGENT.format(url=server.url))
        return file

    @staticmethod
    def compiled(tk: threadkeep.Threadkeep, file: Path, *replies: Any) -> tuple[Any, ScriptedModel]:
        view, model = tk.per_run_owner(), ScriptedModel(replies=replies)
        middleware = [view.middleware(), *view.agent_tools("billing", file=file)]
        return create_agent(model, [], middleware=middleware, checkpointer=view.checkpointer), model

    @pytest.mark.parametrize("face", ["async", "sync"])
    async def test_each_run_works_with_the_access_of_its_owner(
        self, tk: threadkeep.Threadkeep, server: McpServer, file: Path, face: str
    ):
        """At the same time, too; an owner who has not connected gets an answer, and the model knows why."""
        await connect(tk, server, "ana")
        await connect(tk, server, "bob")
        view = tk.per_run_owner()
        results: dict[str, str] = {}

        async def turn(owner: str) -> None:
            agent, model = self.compiled(tk, file, call_of("whoami"), "Done.")
            config, asked = view.config(owner, thread_id="t"), {"messages": [("user", "Which invoices are mine?")]}
            if face == "async":
                state = await agent.ainvoke(asked, config)
            else:
                state = await asyncio.to_thread(agent.invoke, asked, config)
            results[owner] = f"{[message.text for message in state['messages'][1:]]} {model.prompts[0][0].text}"

        await asyncio.gather(*map(turn, ("ana", "bob", "eve")))

        assert "invoices of ana" in results["ana"]
        assert "invoices of bob" in results["bob"]
        assert "Not connected now: billing" in results["eve"]
        assert "billing cannot be used now; nothing was done" in results["eve"]
        assert "'Done.'" in results["eve"]
        assert "Not connected" not in results["ana"]

    async def test_one_graph_serves_owners_and_asks_the_server_once_in_a_run(
        self, tk: threadkeep.Threadkeep, server: McpServer, file: Path
    ):
        """A run that calls the model twice lists the tools once; the next run sees a revoked access, and goes on."""
        await connect(tk, server, "ana")
        view = tk.per_run_owner()
        agent, model = self.compiled(tk, file, call_of("whoami"), "Done.", call_of("whoami"), "Sorry.")
        asked = {"messages": [("user", "Which invoices are mine?")]}
        server.users.listed = 0

        first = await agent.ainvoke(asked, view.config("ana", thread_id="t"))
        listed = server.users.listed
        await tk.credentials.revoke(server.url, owner="ana")
        second = await agent.ainvoke(asked, view.config("ana", thread_id="t"))

        assert listed == 2  # the official client lists them once more, to check the result of the call
        assert "invoices of ana" in str(first["messages"])
        assert ["Not connected now: billing" in str(prompt) for prompt in model.prompts] == [False, False, True, True]
        assert "cannot be used now; nothing was done" in second["messages"][-2].text
        assert second["messages"][-1].text == "Sorry."

    async def test_an_access_that_ends_in_the_middle_of_a_run_is_said_by_the_tool(
        self, tk: threadkeep.Threadkeep, server: McpServer, file: Path
    ):
        await connect(tk, server, "ana")

        class EndingModel(ScriptedModel):
            def bind_tools(self, tools: Any, **options: Any) -> Any:
                if tools:
                    server.users.end("ana")
                return super().bind_tools(tools, **options)

        view = tk.per_run_owner()
        agent: Any = create_agent(
            EndingModel(replies=(call_of("whoami"), "Sorry.")), [], middleware=view.agent_tools("billing", file=file)
        )
        state = await agent.ainvoke(
            {"messages": [("user", "Which invoices are mine?")]}, view.config("ana", thread_id="t")
        )

        assert "The user has to connect billing again; nothing was done." in str(state["messages"][-2])
        assert state["messages"][-1].text == "Sorry."

    async def test_a_tool_that_waits_for_a_person_does(self, tk: threadkeep.Threadkeep, server: McpServer, file: Path):
        """Beside another middleware of that kind; the run that resumes asks the server again."""
        declared = f'{AGENT.format(url=server.url)}interrupt_on = ["whoami"]'
        await asyncio.to_thread(file.write_text, declared)
        await connect(tk, server, "ana")
        view = tk.per_run_owner()
        middleware = [*view.agent_tools("billing", file=file), HumanInTheLoopMiddleware(interrupt_on={})]
        model = ScriptedModel(replies=(call_of("whoami"), "Done."))
        agent: Any = create_agent(model, [], middleware=middleware, checkpointer=view.checkpointer)
        config = view.config("ana", thread_id="t")

        waiting = await agent.ainvoke({"messages": [("user", "Which invoices are mine?")]}, config)
        done = await agent.ainvoke(view.resume({"decisions": [{"type": "approve"}]}), config)

        assert "__interrupt__" in waiting
        assert "invoices of ana" in str(done["messages"])

    async def test_an_agent_that_is_not_declared_is_refused(self, tk: threadkeep.Threadkeep, file: Path):
        with pytest.raises(InvalidInputError, match="there are billing"):
            tk.per_run_owner().agent_tools("invoices", file=file)


def call_of(name: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "1"}])
