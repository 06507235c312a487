"""One user, from the first sign-in to the erasure; and what two users of a browser see of each other."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import OpenInstalled, OpenSite, Site
from tests.web.pages import begin_chat, open_privacy, open_view, panel, say
from threadkeep.ids import ThreadId
from threadkeep.memories.models import NewMemory, Source
from threadkeep.testing import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FRENCH = "Always answer in French, please."
WORDS = " ".join(f"word{number}" for number in range(30))


def test_the_story(open_installed: OpenInstalled, tmp_path: Path):  # noqa: PLR0915 - one story
    """Learn, recall, correct, reject, edit, lose the network, export, erase, and find nothing, with the wheel."""
    replies = ("Noted.", "In Rome.", "In Oslo.", "D'accord.", "Oui.", "Edited.", WORDS)
    site = open_installed(*replies, pause=0.03, certified=True)
    page = site.open()

    say(page, "I live in Rome.")
    expect(page.get_by_text("learnt 1")).to_be_visible()
    begin_chat(page)
    say(page, "Where do I live?")
    used = panel(page).get_by_role("listitem").filter(has_text="I live in Rome")
    used.get_by_role("link", name="Source").click()
    expect(page.locator(".sought")).to_contain_text("I live in Rome.")
    page.go_back()
    used.get_by_role("button", name=re.compile("Actions")).click()
    page.get_by_role("menuitem", name="Correct").click()
    page.get_by_label("What is true").fill("I live in Oslo.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("Corrected")
    begin_chat(page)
    say(page, "In which city do I live?")
    expect(panel(page).get_by_role("listitem").filter(has_text="I live in Oslo.")).to_be_visible()
    assert "I live in Oslo." in (tmp_path / "prompts.txt").read_text()

    say(page, FRENCH)
    waiting = panel(page).get_by_role("listitem").filter(has_text=FRENCH)
    expect(page.get_by_text("1 waits for you")).to_be_visible()
    expect(page).to_have_title("(1) Threadkeep")
    waiting.get_by_role("button", name="Edit").click()
    expect(waiting.get_by_label("What is true")).to_be_focused()
    page.keyboard.press("Escape")
    expect(waiting.get_by_role("button", name="Edit")).to_be_focused()
    waiting.get_by_role("button", name="Reject").click()
    expect(page).to_have_title("Threadkeep")
    begin_chat(page)
    say(page, FRENCH)
    open_view(page, "Inbox")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    open_view(page, "Memory")
    page.get_by_role("main").get_by_role("listitem").first.wait_for()
    page.get_by_role("main").get_by_role("button", name="Memory", exact=True).click()
    page.get_by_role("menuitem", name="Not learnt again").click()
    expect(page.get_by_role("dialog")).to_contain_text(FRENCH)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()

    page.get_by_role("link", name=re.compile("In which city")).click()
    page.get_by_role("button", name="Edit").last.click()
    page.get_by_label("Edit the message").fill("What else?")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Edited.")).to_be_visible()
    expect(page.get_by_text("2/2")).to_be_visible()
    say(page, "Speak", wait=False)
    expect(page.locator(".reply").last).to_contain_text("word3")
    site.network.cut()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    site.network.mend()
    expect(page.locator(".reply .markdown").last).to_have_text(WORDS)

    kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
    assert kept == [0, 0, ""]  # neither a token nor a draft; the cookie of the session cannot be read
    open_privacy(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    path = tmp_path / "export.zip"
    download.value.save_as(path)
    exported = zipfile.ZipFile(path).read("export.jsonl").decode()
    assert "I live in Oslo." in exported
    page.get_by_role("button", name="Erase everything").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Erase everything")).to_be_disabled()
    dialog.get_by_label("Type ERASE to go on").fill("ERASE")
    dialog.get_by_role("button", name="Erase everything").click()
    expect(dialog).to_contain_text("Receipt")
    expect(dialog).to_contain_text("Conversations: 4")
    expect(dialog).to_contain_text("You are signed out.")
    dialog.get_by_role("button", name="Leave").click()
    page.get_by_role("button", name="Sign in").wait_for()
    site.sign_in(page, "ana")
    expect(page.get_by_text("No conversations yet.")).to_be_visible()
    open_view(page, "Memory")
    expect(page.get_by_text("Nothing is remembered yet.")).to_be_visible()
    assert site.foreign == []
    assert site.problems == []


class TestInbox:
    def test_keys_move_approve_edit_and_reject(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        proposals = site.gateway.tk.sync.proposals
        for number in range(5):
            proposals.propose(f"Project {number} ends in May.", owner=site.owner("ana"))
        open_view(page, "Inbox")
        rows = page.get_by_role("main").get_by_role("listitem")
        expect(rows).to_have_count(5)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("j and k move")
        page.keyboard.press("Escape")
        help_on_keys = page.get_by_role("button", name="Keys")
        expect(help_on_keys).to_be_visible()
        page.set_viewport_size({"width": 390, "height": 800})
        expect(help_on_keys).to_be_hidden()
        page.set_viewport_size({"width": 1280, "height": 800})
        page.keyboard.press("j")
        expect(rows.nth(1)).to_be_focused()
        page.keyboard.press("a")
        expect(rows).to_have_count(4)
        page.keyboard.press("r")
        expect(rows).to_have_count(3)
        page.keyboard.press("k")
        page.keyboard.press("e")
        rows.get_by_label("What is true").fill("All projects end.")
        rows.filter(has=page.locator("textarea")).get_by_role("button", name="Approve").click()
        expect(rows).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("k")
        page.keyboard.press("x")
        elsewhere, here = proposals.list(owner=site.owner("ana"))
        proposals.approve(elsewhere.proposal_id, owner=site.owner("ana"))
        page.get_by_role("button", name="Reject selected").click()
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        expect(page.locator(".toast").last).to_contain_text("1 decided, 1 not")
        answers = page.get_by_role("list", name="Last decisions").get_by_role("listitem")
        expect(answers).to_have_count(2)
        expect(answers.filter(has_text=f"Rejected: {here.text}")).to_have_count(1)
        expect(answers.filter(has_text=f"Not decided, because it has changed: {elsewhere.text}")).to_have_count(1)
        texts = {one.text for one in site.gateway.tk.sync.memories.list(owner=site.owner("ana"))}
        assert texts == {"Project 3 ends in May.", "All projects end.", elsewhere.text}

    def test_a_contradiction_has_nothing_to_edit(self, open_site: OpenSite):
        """Neither in the panel beside the chat nor in the inbox, where any other proposal has."""
        site = open_site()
        page = site.open()
        say(page, "Hello")
        tk, ana = site.gateway.tk.sync, site.owner("ana")
        thread = page.evaluate("location.hash.split('/')[2]")
        (asked, _) = tk.threads.messages(thread, owner=ana)
        tk.memories.remember("I live in Rome.", owner=ana)
        newer = Source("user", ThreadId(thread), asked.message_id)
        tk.memories.remember("I live in Oslo.", owner=ana, source=newer)
        tk.proposals.propose("Project 1 ends in May.", owner=ana, source=replace(newer, speaker="tool"))
        assert len(tk.proposals.ask_contradictions(owner=ana)) == 1

        page.reload()
        for rows in (panel(page).get_by_role("listitem"), page.get_by_role("main").get_by_role("listitem")):
            contradiction = rows.filter(has_text="I live in Rome.").filter(has_text="I live in Oslo.")
            expect(contradiction.get_by_role("button", name="Approve")).to_be_visible()
            expect(contradiction.get_by_role("button", name="Edit")).to_have_count(0)
            expect(rows.filter(has_text="Project 1").get_by_role("button", name="Edit")).to_be_visible()
            open_view(page, "Inbox")
        assert site.problems == []


class TestMemoryPage:
    def test_search_filters_history_and_forgetting_a_conversation(self, open_site: OpenSite):
        site = open_site(ScriptedModel())
        page = site.open()
        say(page, "I live in Rome. I like jazz.")
        expect(page.get_by_text("learnt 2")).to_be_visible()
        say(page, "Which trains leave tomorrow?")
        open_view(page, "Memory")
        rows = page.get_by_role("main").get_by_role("listitem")
        question = page.get_by_text("Which trains leave tomorrow?").and_(page.locator("main *"))
        page.get_by_text("What was said: 1 message").click()
        expect(question).to_be_visible()
        page.get_by_text("What was said: 1 message").click()
        expect(question).to_be_hidden()
        with page.expect_response(re.compile("/api/memories.*kind=semantic")):
            page.get_by_label("Kind").select_option("semantic")
        expect(rows).to_have_count(2)
        expect(rows.get_by_text("Said: ")).to_have_count(0)
        page.get_by_label("Search memories").fill("which music")
        expect(rows.filter(has_text="jazz")).to_be_visible()
        page.get_by_label("Search memories").fill("")
        page.get_by_label("Source").select_option("tool")
        expect(page.get_by_text("No memory matches.")).to_be_visible()
        page.get_by_label("Source").select_option("")
        page.get_by_label("Changed").select_option("1")
        page.get_by_role("button", name="By day").click()
        expect(page.get_by_role("main").get_by_role("heading", level=2)).to_have_count(1)
        expect(rows).to_have_count(2)
        page.get_by_role("button", name="By day").click()
        page.get_by_label("Changed").select_option("")
        page.get_by_label("Conversation", exact=True).select_option("I live in Rome. I like jazz.")
        expect(rows).to_have_count(2)
        page.get_by_label("Conversation", exact=True).select_option("")
        page.get_by_role("button", name="Add a memory").click()
        page.get_by_label("What shall be remembered").fill("I am a nurse.")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(rows).to_have_count(3)
        row = rows.filter(has_text="jazz")
        row.get_by_role("button", name=re.compile("Actions")).click()
        page.get_by_role("menuitem", name="Pin").click()
        page.get_by_role("button", name="Pinned only").click()
        expect(rows).to_have_count(1)
        row.get_by_role("link", name="Details").click()
        expect(page.get_by_text("It was not changed.")).to_be_visible()
        page.get_by_role("button", name="Forget everything from this conversation").click()
        page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        expect(page.locator(".toast").last).to_contain_text("forgotten")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("I am a nurse.")

    def test_a_long_list_keeps_an_edit_and_is_filtered_as_a_whole(self, open_site: OpenSite):
        """The filter finds a memory that is not among the hundred most like the search."""
        site = open_site()
        mine = site.gateway.tk.for_owner(site.owner("ana")).sync.memories
        mine.remember_many([NewMemory(f"I like music of number {number}.") for number in range(120)])
        mine.remember("Oboes are loud.", pinned=True)
        page = site.open()
        open_view(page, "Memory")
        rows = page.get_by_role("main").get_by_role("listitem")
        rows.first.get_by_role("button", name=re.compile("Actions")).click()
        page.get_by_role("menuitem", name="Correct").click()
        editor = page.get_by_label("What is true")
        editor.fill("Oboes are quiet.")
        page.locator(".memory-rows").evaluate("list => list.scrollTo(0, 3_000)")
        expect(editor).not_to_be_in_viewport()
        page.locator(".memory-rows").evaluate("list => list.scrollTo(0, 0)")
        expect(editor).to_have_value("Oboes are quiet.")
        page.keyboard.press("Escape")
        expect(rows.first).to_contain_text("Oboes are loud.")
        page.get_by_label("Search memories").fill("I like music")
        expect(rows.filter(has_text="music").first).to_be_visible()
        page.get_by_role("button", name="Pinned only").click()
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("Oboes are loud.")


class TestTwoUsers:
    def test_each_sees_nothing_of_the_other(self, open_site: OpenSite):
        """In two profiles of a browser, and in one profile after the other user's sign-out."""
        site = open_site()
        ana, bob = site.open("ana"), site.open("bob")
        say(ana, "The ocelot is striped. I live in Quito.")
        say(bob, "I live in Oslo.")
        thread = ana.evaluate("location.hash")
        seen = [*_views(bob), _at(bob, thread), *_views_after_switch(site, ana)]
        assert not [text for text in seen if "ocelot" in text or "Quito" in text]
        expect(bob.get_by_text("This conversation was deleted.")).to_be_visible()


def _at(page: Page, address: str) -> str:
    page.evaluate("address => { location.hash = address }", address)
    page.wait_for_timeout(500)
    return page.content()


def _views(page: Page) -> list[str]:
    return [_at(page, address) for address in ("#/", "#/memory", "#/inbox", "#/privacy")]


def _views_after_switch(site: Site, page: Page) -> list[str]:
    page.get_by_role("button", name="Profile of").click()
    page.get_by_role("menuitem", name="Sign out").click()
    page.get_by_role("button", name="Sign in").wait_for()
    seen = [page.content()]
    for _ in range(3):
        page.go_back()
        page.wait_for_timeout(200)
        seen.append(page.content())
    site.sign_in(page, "bob")
    return [*seen, *_views(page)]
