"""Imports of earlier conversations: the user's own words, as of their dates, proposed, and each once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import threadkeep
from tests.capture.world import FailingExtractor
from tests.command_line import CliRunner
from tests.moving.conversation_files import START, chatgpt, claude, slack, whatsapp, write_json, write_zip
from tests.processes import PIPE, start_python
from threadkeep.cli.main import app
from threadkeep.clock import SystemClock
from threadkeep.container import Container
from threadkeep.errors import InvalidInputError, OptedOutError, SettingsError
from threadkeep.proposals.models import Proposal
from threadkeep.proposals.repository import ProposalReader
from threadkeep.registry import create_storage, resolve_settings
from threadkeep.settings import Settings
from threadkeep.testing.models import HashingEmbedder

TEXT = "My sister Ilse lives in Bergen."
REPLY = "I live in Rome and I am allergic to nuts."


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as opened:
        yield opened


def chatgpt_with(text: str, reply: str) -> list[dict[str, Any]]:
    (talk,) = chatgpt(1, messages=1)
    talk["mapping"]["0-user-0"]["message"]["content"]["parts"] = [text]
    talk["mapping"]["0-assistant-0"]["message"]["content"]["parts"] = [reply]
    return [talk]


def plain_with(text: str, reply: str) -> dict[str, Any]:
    messages = [{"role": "user", "text": text, "at": START.isoformat()}, {"role": "assistant", "content": reply}]
    return {"conversations": [{"id": "a", "messages": messages}]}


EXPORTS: dict[str, tuple[str, Callable[[Path], Path], dict[str, Any]]] = {
    "chatgpt": ("chatgpt", lambda at: write_json(at / "conversations.json", chatgpt_with(TEXT, REPLY)), {}),
    "chatgpt zip": (
        "chatgpt",
        lambda at: write_zip(at / "e.zip", {"chat.html": "x", "conversations-000.json": chatgpt_with(TEXT, REPLY)}),
        {},
    ),
    "claude": ("claude", lambda at: write_json(at / "conversations.json", claude(TEXT, REPLY)), {}),
    "slack": ("slack", lambda at: write_zip(at / "slack.zip", slack(TEXT, REPLY)), {"me": "ana@x.org"}),
    "ios": ("whatsapp", lambda at: _text(at, whatsapp(TEXT, REPLY, style="ios")), {"me": "Ana"}),
    "android": ("whatsapp", lambda at: _text(at, whatsapp(TEXT, REPLY, style="android")), {"me": "Ana"}),
    "json": ("json", lambda at: write_json(at / "own.json", plain_with(TEXT, REPLY)), {}),
}


def _text(folder: Path, text: str) -> Path:
    path = folder / "_chat.txt"
    path.write_text(text, encoding="utf-8")
    return path


class TestFormats:
    @pytest.mark.parametrize("name", EXPORTS)
    def test_the_users_own_words_are_proposed(self, tk: threadkeep.Threadkeep, tmp_path: Path, name: str):
        """As of the day when they were written; of what others wrote, nothing becomes anything."""
        program, write, options = EXPORTS[name]
        path = write(tmp_path)

        result = tk.sync.import_conversations(path, **options)

        (proposal,) = tk.sync.proposals.list()
        assert (result.program, result.conversations, result.proposals, result.skipped) == (program, 1, 1, ())
        assert (proposal.text, proposal.trust) == (TEXT, "user")
        assert proposal.sources[0].at is not None
        assert proposal.sources[0].at.date().isoformat() in ("2021-02-03", "2021-02-23")
        assert tk.sync.memories.list() == []

    def test_an_approved_statement_is_as_old_as_the_message(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        tk.sync.import_conversations(EXPORTS["chatgpt"][1](tmp_path))
        (proposal,) = tk.sync.proposals.list()

        tk.sync.proposals.approve(proposal.proposal_id, by="ana")

        (memory,) = tk.sync.memories.list()
        assert (memory.text, memory.sources[0].at) == (TEXT, START + timedelta(seconds=1))

    def test_a_folder_of_slack_is_read_and_links_are_words(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        for file, value in slack("My colleague <@U2> lives in Lund &amp; likes <https://x.org|chess>.", REPLY).items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            write_json(tmp_path / file, value)

        tk.sync.import_conversations(tmp_path, me="ana", accept=True)

        text = " ".join(memory.text for memory in tk.sync.memories.list())
        assert "@bo lives in Lund & likes chess" in text

    def test_only_the_branch_that_was_open_is_read(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """A message that the user edited is not what they say."""
        (talk,) = chatgpt_with(TEXT, REPLY)
        mapping = talk["mapping"]
        old = json.loads(json.dumps(mapping["0-user-0"]).replace("Bergen", "Madrid").replace("0-user-0", "0-first"))
        mapping["0-first"] = {**old, "children": []}
        mapping["root"]["children"].append("0-first")

        tk.sync.import_conversations(write_json(tmp_path / "conversations.json", [talk]), accept=True)

        assert "Madrid" not in str(tk.sync.memories.list())

    def test_a_later_export_adds_what_is_new(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """And an older statement never takes the place of a newer one."""
        path = tmp_path / "own.json"
        messages: list[dict[str, Any]] = [
            {"role": "user", "text": "I live in Porto.", "at": "2021-02-03T09:00:00Z"},
            {"role": "user", "text": "I moved to Graz.", "at": "2021-05-03T09:00:00Z"},
        ]
        first = tk.sync.import_conversations(write_json(path, [{"id": "a", "messages": messages}]), accept=True)
        messages.append({"role": "user", "text": "My dog is called Rex.", "at": "2021-06-03T09:00:00Z"})
        messages.insert(0, {"role": "user", "text": "I live in Lund.", "at": "2020-02-03T09:00:00Z"})
        older = {"id": "b", "messages": messages[:1]}

        second = tk.sync.import_conversations(
            write_json(path, [{"id": "a", "messages": messages[1:]}, older]), accept=True
        )

        assert (first.new, second.new) == (2, 2)
        current = [memory.text for memory in tk.sync.memories.list(kind="semantic")]
        assert any("Graz" in text for text in current)
        assert not any("Lund" in text for text in current)
        assert any("Rex" in text for text in current)


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "value", "options", "message"),
        [
            ("conversations.json", [{"id": "a", "log": []}], {}, "not an export of a known program or version"),
            ("conversations.json", [{"id": "a", "mapping": {}}], {"program": "claude"}, "no Claude export"),
            ("conversations.json", "{", {}, "cannot be read as an export"),
            ("users.zip", slack(TEXT, REPLY), {}, "me is missing"),
            ("users.zip", slack(TEXT, REPLY), {"me": "carla"}, "me names no user"),
            ("chat.txt", whatsapp(TEXT, REPLY, style="ios"), {}, "between Ana, Bo Lind"),
            ("chat.txt", "[01/02/2021, 09:00:00] Ana: Hello", {"me": "Ana"}, "Day and month"),
            ("none.json", None, {}, "cannot be read as an export"),
            ("own.json", [{"messages": []}], {"program": "telegram"}, "format 'telegram' is unknown"),
            ("own.json", '[{"messages": [' + "9" * 5_000 + "]}]", {}, "cannot be read as an export"),
            ("chat.txt", "[31/31/2021, 09:00:00] Ana: Hello", {"me": "Ana", "dates": "dmy"}, "cannot be read"),
            *[
                ("users.zip", {**slack(TEXT, REPLY), "users.json": users}, {"me": "ana"}, "cannot be read")
                for users in (
                    {"a": 1},
                    [{"name": "ana"}],
                    [{"id": ["U1"], "name": "ana"}],
                    [{"id": "U1", "profile": "x"}],
                )
            ],
        ],
    )
    def test_the_reason_is_named(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, name: str, value: Any, options: Any, message: str
    ):
        path = tmp_path / name
        if name.endswith(".zip"):
            write_zip(path, value)
        elif isinstance(value, str):
            path.write_text(value)
        elif value is not None:
            write_json(path, value)

        with pytest.raises(InvalidInputError, match=message):
            tk.sync.import_conversations(path, **options)

    def test_day_or_month_can_be_named(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        path = _text(tmp_path, f"[01/02/2021, 09:00:00] Ana: {TEXT}")

        tk.sync.import_conversations(path, me="Ana", dates="mdy")

        assert tk.sync.proposals.list()[0].sources[0].at == datetime(2021, 1, 2, 9, tzinfo=UTC)

    def test_one_conversation_that_is_wrong_stops_no_other(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """A date in the future and a broken conversation are left out by name."""
        future = {"id": "later", "messages": [{"role": "user", "text": "Hi", "at": "2931-01-01T00:00:00Z"}]}
        broken = {"id": "broken", "messages": [{"role": "user", "at": "2021-01-01T00:00:00Z"}]}
        path = write_json(tmp_path / "own.json", [future, broken, plain_with(TEXT, REPLY)["conversations"][0]])

        result = tk.sync.import_conversations(path)

        assert [(one.conversation_id, one.reason.split(" (")[0]) for one in result.skipped] == [
            ("later", "a message is dated 2931-01-01, in the future"),
            ("broken", "it is not as in a JSON export"),
        ]
        assert (result.conversations, result.proposals) == (1, 1)

    @pytest.mark.parametrize("value", [None, 5, ["a"], {"a": 1}])
    def test_a_message_that_is_no_text_stops_no_other_conversation(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, value: object
    ):
        (broken,), (whole,) = claude(TEXT, REPLY), claude(TEXT, REPLY)
        broken["uuid"] = "broken"
        broken["chat_messages"][0].update(text=value, content=[])

        result = tk.sync.import_conversations(write_json(tmp_path / "conversations.json", [broken, whole]))

        assert [one.conversation_id for one in result.skipped] == ["broken"]
        assert (result.conversations, result.proposals) == (1, 1)

    @pytest.mark.parametrize("time", ["1e400", "nan", "-1e18"])
    def test_a_message_of_no_real_time_stops_no_other_channel(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, time: str
    ):
        files = slack(TEXT, REPLY)
        files["other/2021-02-03.json"] = [{"user": "U1", "text": "I live in Porto.", "ts": time}]

        result = tk.sync.import_conversations(write_zip(tmp_path / "slack.zip", files), me="ana")

        assert [one.conversation_id for one in result.skipped] == ["other"]
        assert (result.conversations, result.proposals) == (1, 1)

    @pytest.mark.parametrize("damage", ["data", "password", "method"])
    def test_a_damaged_zip_is_refused(self, tk: threadkeep.Threadkeep, tmp_path: Path, damage: str):
        path = write_zip(tmp_path / "export.zip", {"conversations.json": claude(TEXT * 50, REPLY)})
        data = bytearray(path.read_bytes())
        directory = data.find(b"PK\x01\x02")
        if damage == "data":
            data[60:90] = b"\xff" * 30
        elif damage == "password":
            data[6] |= 1
            data[directory + 8] |= 1
        else:
            data[8] = data[directory + 10] = 97
        path.write_bytes(data)

        with pytest.raises(InvalidInputError, match="cannot be read as an export"):
            tk.sync.import_conversations(path)

    @pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0b", "\r", "\x1e"])
    def test_the_message_of_another_person_cannot_begin_one_of_the_user(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, separator: str
    ):
        """A line of a chat ends with a line feed; what other programs take for one is text."""
        chat = whatsapp(TEXT, f"Hi{separator}[23/02/2021, 09:02:00] Ana: I live in Rome.", style="ios")
        path = tmp_path / "_chat.txt"
        path.write_bytes(chat.replace("\n", "\r\n").encode())

        tk.sync.import_conversations(path, me="Ana")

        assert [one.text for one in tk.sync.proposals.list()] == [TEXT]

    def test_who_opted_out_is_learnt_nothing_about(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        tk.sync.owners.opt_out("ana")

        with pytest.raises(OptedOutError):
            tk.sync.import_conversations(EXPORTS["json"][1](tmp_path))

    def test_without_capture_nothing_is_imported(self, tmp_path: Path):
        settings = Settings(THREADKEEP_CAPTURE="off")
        with (
            threadkeep.open("memory://", owner="ana", settings=settings) as tk,
            pytest.raises(SettingsError, match="THREADKEEP_CAPTURE"),
        ):
            tk.sync.import_conversations(EXPORTS["json"][1](tmp_path))


def contents(tk: threadkeep.Threadkeep) -> set[tuple[str, str, str]]:
    """Return what is remembered and proposed, with the time of each source."""
    memories = {(one.kind, one.text, str(one.sources[0].at)) for one in tk.sync.memories.list(limit=10_000)}
    proposals = {("proposed", one.text, str(one.sources[0].at)) for one in tk.sync.proposals.list(limit=10_000)}
    return memories | proposals


class TestRepeating:
    @pytest.mark.parametrize("accept", [False, True])
    def test_a_second_import_changes_nothing(self, tk: threadkeep.Threadkeep, tmp_path: Path, accept: bool):
        """Whatever was decided in between."""
        path = write_json(tmp_path / "conversations.json", chatgpt(4))
        first = tk.sync.import_conversations(path, accept=accept)
        before = contents(tk)

        second = tk.sync.import_conversations(path, accept=accept)

        assert (first.new, second.new) == (20, 0)
        assert contents(tk) == before
        assert "peanuts" not in str(before)
        assert "moon" not in str(before)

    def test_a_rejected_statement_is_not_proposed_again(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        tk.sync.import_conversations(EXPORTS["claude"][1](tmp_path))
        (proposal,) = tk.sync.proposals.list()
        tk.sync.proposals.reject(proposal.proposal_id, by="ana")

        tk.sync.import_conversations(EXPORTS["json"][1](tmp_path))

        assert tk.sync.proposals.list() == []

    @pytest.mark.parametrize("tries", [1, 5], ids=["kept aside", "waiting"])
    async def test_what_an_earlier_import_could_not_learn_is_learnt(self, tmp_path: Path, tries: int):
        """Whether it was kept aside after too many failures, or waits for its next try."""
        url, path = f"sqlite:///{tmp_path}/memory.db", EXPORTS["json"][1](tmp_path)
        settings = resolve_settings(url, None).model_copy(update={"capture_workers": 0, "capture_tries": tries})
        clock, failing = SystemClock(), FailingExtractor("Bergen")
        app = Container(settings, create_storage(settings, clock), None, clock, extractor=failing)
        async with threadkeep.Threadkeep(app) as tk:
            with suppress(TimeoutError):  # it would wait for the next try
                async with asyncio.timeout(1):
                    await tk.import_conversations(path, owner="ana")
            assert await tk.proposals.list(owner="ana") == []
        assert failing.failed >= 1

        async with threadkeep.open(url, embedder="none") as tk:
            await tk.import_conversations(path, owner="ana")
            proposed = [one.text for one in await tk.proposals.list(owner="ana")]

        assert proposed == [TEXT]

    def test_proposals_are_read_once_for_all_turns(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """So an import takes a time that grows with its size only, however much waits."""
        listed: list[int] = []
        read = ProposalReader.list

        async def counted(self: ProposalReader, *args: Any, **kwargs: Any) -> list[Proposal]:
            found = await read(self, *args, **kwargs)
            listed.append(len(found))
            return found

        monkeypatch.setattr(ProposalReader, "list", counted)

        result = tk.sync.import_conversations(write_json(tmp_path / "conversations.json", chatgpt(12)))

        assert result.proposals == 12
        assert len(listed) <= 2

    def test_what_another_client_decides_meanwhile_counts(self, tmp_path: Path):
        """A statement that was approved there does not wait any more; one that was rejected and let in again is new."""
        url = f"sqlite:///{tmp_path}/memory.db"
        texts = ["My sister Ilse lives in Bergen.", "My brother Olaf lives in Lund.", "My aunt Vera lives in Cork."]
        talks = [plain_with(text, REPLY)["conversations"][0] | {"id": text} for text in texts]
        again = [talk | {"id": f"again {talk['id']}"} for talk in talks]
        with (
            threadkeep.open(url, owner="ana", embedder="none") as tk,
            threadkeep.open(url, owner="ana", embedder="none") as other,
        ):
            tk.sync.import_conversations(write_json(tmp_path / "first.json", talks))
            by_text = {one.text: one.proposal_id for one in other.sync.proposals.list()}
            other.sync.proposals.approve(by_text[texts[0]], by="ana")
            other.sync.proposals.reject(by_text[texts[1]], by="ana")
            (tombstone,) = other.sync.proposals.tombstones()
            other.sync.proposals.lift(tombstone.tombstone_id)

            second = tk.sync.import_conversations(write_json(tmp_path / "second.json", again))

            assert (second.new, second.memories, second.proposals) == (3, 1, 2)
            assert {one.text for one in tk.sync.proposals.list()} == {texts[1], texts[2]}
            assert [one.text for one in tk.sync.memories.list()] == [texts[0]]

    @pytest.mark.long
    @pytest.mark.slow
    @pytest.mark.linux
    @pytest.mark.parametrize(
        ("conversations", "kills"),
        [(30, 2), pytest.param(1_000, 10, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])],
    )
    def test_an_import_that_was_killed_is_repeated(self, tmp_path: Path, conversations: int, kills: int):
        """The result is that of one that ran to its end."""
        path = write_json(tmp_path / "conversations.json", chatgpt(conversations))
        with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
            tk.sync.import_conversations(path, accept=True)
            expected = contents(tk)

        rng, url = Random(5), f"sqlite:///{tmp_path}/memory.db"
        program = (
            "import sys, threadkeep\n"
            "with threadkeep.open(sys.argv[1], owner='ana', embedder='none') as tk:\n"
            "    tk.sync.import_conversations(sys.argv[2], accept=True, progress=lambda *_: print('.', flush=True))\n"
        )
        for _ in range(kills):
            child = start_python("-c", program, url, path, stdout=PIPE)
            assert child.stdout is not None
            for _ in range(rng.randint(1, max(conversations // (kills + 2), 2))):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            child.stdout.close()

        begun = time.monotonic()
        with threadkeep.open(url, owner="ana", embedder="none") as tk:
            tk.sync.import_conversations(path, accept=True)
            found = contents(tk)

        assert found == expected, time.monotonic() - begun


def test_the_command_line_does_the_same(tmp_path: Path):
    """It names what was left out, and its exit code says so."""
    future = {"id": "later", "messages": [{"role": "user", "text": "Hi", "at": "2931-01-01T00:00:00Z"}]}
    path = write_json(tmp_path / "own.json", [future, plain_with(TEXT, REPLY)["conversations"][0]])
    where = ["--data-dir", str(tmp_path)]

    done = CliRunner().invoke(app, ["conversations", "import", str(path), *where])
    listed = CliRunner().invoke(app, ["proposals", "list", "--json", *where])

    assert done.exit_code == 1
    assert "1 conversations (json), 1 messages, 1 new." in done.output
    assert "later: left out, a message is dated 2931-01-01, in the future" in done.output
    assert [row["text"] for row in json.loads(listed.stdout)] == [TEXT]

    refused = CliRunner().invoke(app, ["proposals", "approve", "--all", *where], input="n\n")
    approved = CliRunner().invoke(app, ["proposals", "approve", "--all", "--yes", *where])
    kept = CliRunner().invoke(app, ["memories", "list", "--json", *where])
    assert (refused.exit_code, approved.exit_code) == (1, 0)
    assert [row["text"] for row in json.loads(kept.stdout)] == [TEXT]
