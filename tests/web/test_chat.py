"""The conversation in a browser: what is said, recalled, changed, branched, cut off and asked."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from playwright.sync_api import APIResponse, Route, expect

from tests.web.conftest import OpenSite
from tests.web.pages import SlowModel, begin_chat, panel, say
from threadkeep.testing import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROME = "I live in Rome."
BY_ID = re.compile(r"/api/memories\?memory_id=")


class TestMemory:
    def test_a_memory_is_learnt_recalled_corrected_and_forgotten(self, open_site: OpenSite):
        """In another conversation it is recalled, with its source one click away; the correction is what is used."""
        site = open_site(ScriptedModel(replies=("Noted.",)))
        page = site.open()
        say(page, ROME)
        expect(page.get_by_text("Nothing recalled · learnt 1")).to_be_visible()
        begin_chat(page)
        say(page, "Where do I live?")
        expect(page.get_by_text("Recalled 1", exact=True)).to_be_visible()
        used = panel(page).get_by_role("listitem")
        expect(used).to_contain_text("I live in Rome")
        expect(used).to_contain_text("same words: live")
        used.get_by_role("link", name="Source").click()
        expect(page.locator(".sought")).to_contain_text(ROME)
        page.go_back()
        used.get_by_role("button", name=re.compile("Actions for the memory")).click()
        page.get_by_role("menuitem", name="Correct").click()
        page.get_by_label("What is true").fill("I live in Oslo.")
        page.get_by_role("button", name="Save").click()
        expect(used).to_contain_text("I live in Oslo.")
        page.reload()
        expect(page.get_by_text("Recalled 1", exact=True)).to_be_visible()
        expect(used).to_contain_text("I live in Oslo.")
        expect(used).to_contain_text("same words: live")
        page.get_by_role("navigation", name="Conversations").get_by_role("link", name="I live in Rome.").click()
        expect(page.get_by_text("Nothing recalled · learnt 1")).to_be_visible()
        expect(panel(page).get_by_role("listitem")).to_contain_text(["I live in Oslo."])
        begin_chat(page)
        say(page, "Which city do I live in?")
        city = panel(page).get_by_role("listitem").filter(has_text="I live in Oslo.")
        city.get_by_role("button", name=re.compile("Actions for the memory")).click()
        page.get_by_role("menuitem", name="Forget").click()
        expect(page.get_by_role("dialog")).to_contain_text("1 message says it and stays")
        page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        expect(city).to_contain_text("Forgotten")
        begin_chat(page)
        say(page, "So where do I live?")
        expect(page.get_by_text("Recalled").or_(page.get_by_text("Nothing recalled"))).to_be_visible()
        assert "Oslo" not in panel(page).inner_text()

    def test_changed_and_left_out_memories_are_shown(self, open_site: OpenSite):
        """The old text is struck through; what had no room is folded; both are there after the page was reloaded."""
        site = open_site()
        remember = site.gateway.tk.sync.memories.remember
        for number in range(12):
            remember(f"My sister number {number} lives in Rome, {'and more of it ' * 60}.", owner=site.owner("ana"))
        page = site.open()
        late: list[tuple[Route, APIResponse]] = []
        page.route(BY_ID, lambda route: late.append((route, route.fetch())))
        say(page, ROME)
        expect(panel(page).get_by_role("listitem").filter(has_text="new")).to_be_visible()
        say(page, "I live in Oslo now.")
        changed = panel(page).get_by_role("listitem").filter(has_text="changed")
        expect(changed.locator("del")).to_have_text(ROME)
        for route, answer in reversed(late):  # the one from before the change comes last
            route.fulfill(response=answer)
        page.unroute(BY_ID)
        for _ in range(2):
            expect(changed.get_by_text("I live in Rome.")).to_be_visible()
            expect(changed.locator("del")).to_have_text(ROME)
            expect(changed).to_contain_text("I live in Oslo now")
            page.reload()
        expect(page.locator(".question")).to_have_count(2)
        say(page, "Where does my sister live?")
        for _ in range(2):
            panel(page).get_by_text("had no room").click()
            expect(panel(page).locator(".left-out").get_by_role("listitem").first).to_contain_text("My sister number")
            page.reload()

    def test_such_things_are_never_remembered_until_the_rule_is_undone(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        say(page, ROME)
        fact = panel(page).get_by_role("listitem").filter(has_text="I live in Rome")
        fact.get_by_role("button", name=re.compile("Actions")).click()
        page.get_by_role("menuitem", name="Never remember such things").click()
        expect(page.get_by_role("dialog")).to_contain_text("With it goes")
        expect(page.get_by_role("dialog").get_by_role("listitem")).to_contain_text([ROME])
        page.get_by_role("dialog").get_by_role("button", name="Never remember").click()
        expect(fact).to_contain_text("Forgotten")
        say(page, "I like jazz.")
        expect(panel(page)).to_contain_text("Nothing was learnt.")
        page.get_by_role("button", name="Take the rule back").click()
        expect(page.locator(".toast").last).to_contain_text("Undone")
        say(page, "I like opera.")
        expect(panel(page).get_by_role("listitem").filter(has_text="I like opera")).to_be_visible()

    def test_a_conversation_is_not_remembered(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        page.get_by_text("Remember this conversation").click()
        say(page, ROME)
        expect(page.get_by_text("Without memory")).to_be_visible()
        page.get_by_role("link", name="New chat").click()
        page.reload()
        say(page, "Where do I live?")
        expect(page.get_by_text("Nothing recalled")).to_be_visible()

    def test_the_next_message_does_not_wait_for_learning(self, open_site: OpenSite, monkeypatch: pytest.MonkeyPatch):
        """It is answered while the first turn waits for a worker; what that one learns is shown under its reply."""
        monkeypatch.setenv("THREADKEEP_CAPTURE_WORKERS", "0")
        site = open_site(ScriptedModel(replies=("Noted.",)))
        page = site.open()
        lines = page.locator(".memory-line")
        say(page, ROME, wait=False)
        expect(lines).to_contain_text("Learning …")
        say(page, "Which trains leave tomorrow?", wait=False)
        expect(page.locator(".reply").nth(1)).to_contain_text("Noted.")
        expect(lines.first).to_contain_text("Learning …")
        site.gateway.tk.sync.drain()
        expect(lines.first).to_contain_text("learnt 1")


class TestThreads:
    def test_conversations_are_found_renamed_forked_and_deleted(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        say(page, ROME)
        rows = page.get_by_role("navigation", name="Conversations").get_by_role("listitem")
        menu = rows.first.get_by_role("button")
        menu.click()
        page.get_by_role("menuitem", name="Rename").click()
        page.get_by_label("Title").fill("My city")
        page.get_by_role("button", name="Save").click()
        expect(rows).to_contain_text(["My city"])
        menu.click()
        page.get_by_role("menuitem", name="Fork").click()
        expect(rows).to_have_count(2)
        expect(page.locator(".question")).to_contain_text(ROME)
        page.get_by_role("searchbox").fill("nothing like it")
        expect(rows).to_have_count(0)
        page.get_by_role("searchbox").fill("city")
        expect(rows).not_to_have_count(0)
        page.get_by_role("searchbox").fill("live rome")
        expect(page.get_by_role("navigation", name="Conversations")).to_contain_text("In what you said")
        page.get_by_role("navigation", name="Conversations").get_by_text("Said: ").first.click()
        expect(page.locator(".sought")).to_contain_text(ROME)
        page.get_by_role("searchbox").fill("")
        page.locator(".thread-row.current").get_by_role("button").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(rows).to_have_count(1)
        expect(page.get_by_text("What shall we talk about?")).to_be_visible()

    def test_a_conversation_deleted_in_another_tab_says_so_and_keeps_the_draft(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        say(page, ROME)
        page.get_by_label("Message", exact=True).fill("A long thought")
        tab = page.context.new_page()
        tab.goto(page.url)
        tab.locator(".thread-row.current").get_by_role("button").click()
        tab.get_by_role("menuitem", name="Delete").click()
        tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("This conversation was deleted.")).to_be_visible()
        address = page.url
        page.get_by_role("main").get_by_role("link", name="New chat").click()
        expect(page.get_by_label("Message", exact=True)).to_have_value("A long thought")
        page.goto(address)
        page.reload()
        expect(page.get_by_text("This conversation was deleted.")).to_be_visible()


class TestTurns:
    def test_edits_and_new_replies_are_branches(self, open_site: OpenSite):
        site = open_site(ScriptedModel(replies=("First.", "Second.", "Third.")))
        page = site.open()
        say(page, "One")
        page.get_by_role("button", name="Edit").click()
        editor = page.get_by_label("Edit the message")
        editor.fill("Never mind")
        page.keyboard.press("Escape")
        expect(page.locator(".question")).to_contain_text("One")
        expect(page.get_by_role("button", name="Edit")).to_be_focused()
        page.keyboard.press("Enter")
        editor.fill("Uno")
        page.keyboard.press("Enter")
        expect(page.locator(".reply")).to_contain_text("Second.")
        expect(page.get_by_text("2/2")).to_be_visible()
        page.get_by_role("button", name="Regenerate").click()
        expect(page.locator(".reply")).to_contain_text("Third.")
        expect(page.get_by_text("3/3")).to_be_visible()
        page.get_by_role("button", name="Previous version").click()
        expect(page.locator(".reply")).to_contain_text("Second.")
        page.get_by_role("button", name="Previous version").click()
        expect(page.locator(".question")).to_contain_text("One")
        expect(page.locator(".reply")).to_contain_text("First.")
        say(page, "More")
        expect(page.locator(".question")).to_contain_text(["One", "More"])

    def test_a_cut_network_loses_and_doubles_nothing(self, open_site: OpenSite):
        words = " ".join(f"word{number}" for number in range(60))
        site = open_site(SlowModel(replies=(words,)))
        page = site.open()
        say(page, "Speak", wait=False)
        for seen in ("word5", "word20"):
            expect(page.locator(".reply")).to_contain_text(seen)
            site.network.cut()
            expect(page.locator(".connection")).to_contain_text("Reconnecting")
            site.network.mend()
        expect(page.locator(".reply")).to_contain_text("word59")
        page.get_by_role("button", name="Send").wait_for()
        assert page.locator(".reply .markdown").inner_text() == words

    def test_a_turn_is_stopped_and_one_that_runs_is_joined_by_a_new_page(self, open_site: OpenSite):
        words = " ".join(f"word{number}" for number in range(400))
        site = open_site(SlowModel(replies=(words,)))
        page = site.open()
        say(page, "Speak", wait=False)
        expect(page.locator(".reply")).to_contain_text("word3")
        page.reload()
        expect(page.locator(".reply")).to_contain_text("word10")
        assert page.locator(".reply").inner_text().count("word1 ") == 1
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".reply")).to_contain_text("Stopped.")
        page.get_by_role("button", name="Send").wait_for()

    def test_files_are_sent_or_refused_by_name(self, open_site: OpenSite, tmp_path: Path):
        """Before anything of them is sent: a video, a file of 50 MB, and more than five; also a very long text."""
        site = open_site()
        page = site.open()
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
        with (tmp_path / "huge.txt").open("wb") as huge:
            huge.truncate(50_000_000)
        page.locator("input[type=file]").set_input_files(tmp_path / "huge.txt")
        expect(page.locator(".refusals")).to_contain_text("huge.txt: larger than 10 MB")
        files: Any = [
            {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"# Plans"},
            {"name": "film.mp4", "mimeType": "video/mp4", "buffer": b"x"},
            {"name": "big.txt", "mimeType": "text/plain", "buffer": b"x" * 10_000_001},
            *({"name": f"{one}.txt", "mimeType": "text/plain", "buffer": b"x"} for one in range(5)),
        ]
        page.locator("input[type=file]").set_input_files(files)
        for refused in ("film.mp4: files of this type", "big.txt: larger than 10 MB", "4.txt: 5 files are the most"):
            expect(page.locator(".refusals")).to_contain_text(refused)
        assert sent == []
        say(page, "Sum it up")
        expect(page.locator(".sent-files")).to_contain_text("notes.md")
        page.reload()
        expect(page.locator(".sent-files")).to_contain_text("notes.md")
        page.get_by_label("Message", exact=True).fill("x" * 200_000)
        expect(page.locator(".refusals")).to_contain_text("64,000 are the most")
        expect(page.get_by_role("button", name="Send")).to_be_disabled()


@tool
def refund(euros: int) -> str:
    """Pay money back."""
    return f"Paid {euros} euros."


CALL = {"name": "refund", "args": {"euros": 500}, "id": "c1"}


def agent_that_asks(tk: Any) -> Any:
    view = tk.per_run_owner()
    asks: Any = HumanInTheLoopMiddleware(interrupt_on={"refund": True})
    asked = AIMessage("", tool_calls=[CALL])
    model = ScriptedModel(replies=(asked, "Done.", asked, "Done."))
    return create_agent(model, tools=[refund], middleware=[asks, view.middleware()], checkpointer=view.checkpointer)


class TestQuestions:
    def test_a_use_of_a_tool_is_edited_and_approved_and_another_rejected(self, open_site: OpenSite):
        """A page that is opened later shows the question, too."""
        site = open_site(graph=agent_that_asks)
        page = site.open()
        say(page, "Refund me")
        card = page.get_by_role("region", name="The agent asks")
        expect(card).to_contain_text("The agent wants to use refund")
        page.reload()
        expect(card).to_contain_text('"euros": 500')
        card.get_by_role("button", name="Edit").click()
        card.get_by_label("Arguments, as JSON").fill("{")
        card.get_by_role("button", name="Send").click()
        expect(card).to_contain_text("This is not valid JSON.")
        card.get_by_label("Arguments, as JSON").fill('{"euros": 5}')
        card.get_by_role("button", name="Send").click()
        expect(page.locator(".reply")).to_contain_text("Done.")
        page.get_by_text("Tool: refund").last.click()
        expect(page.locator(".tool")).to_contain_text(["Paid 5 euros."])
        begin_chat(page)
        say(page, "Refund me")
        card.get_by_role("button", name="Reject").click()
        expect(page.locator(".reply")).to_contain_text("Done.")
        assert "Paid" not in page.locator(".reply").inner_text()


class TestSession:
    def test_a_draft_outlives_the_session(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        sessions = site.gateway.app.state.gateway.sessions
        cookies: Any = page.context.cookies()
        secret = next(one["value"] for one in cookies if one["name"] == "__Host-threadkeep")
        asyncio.run_coroutine_threadsafe(sessions.end(secret), site.gateway.loop).result()
        page.get_by_label("Message", exact=True).fill("A long thought")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
        expect(page.get_by_label("Message", exact=True)).to_have_value("A long thought")
        with page.context.expect_page() as tab:
            page.get_by_role("alert").get_by_role("button", name="Sign in").click()
        tab.value.get_by_label("Message", exact=True).wait_for()
        page.get_by_role("button", name="I have signed in").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_label("Message", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.locator(".reply")).to_contain_text("Noted.")

    def test_signing_out_clears_the_page_also_behind_the_back_button(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        say(page, ROME)
        page.get_by_role("button", name="Profile of ana").click()
        page.get_by_role("menuitem", name="Sign out").click()
        page.get_by_role("button", name="Sign in").wait_for()
        page.go_back()
        page.wait_for_timeout(300)
        assert "Rome" not in page.locator("body").inner_text()
        assert site.foreign == []
        assert site.problems == []
