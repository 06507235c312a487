"""What a user does less often: keys and copying, files dropped and pasted, undo, lifting, import and export."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.conftest import OpenSite
from tests.web.pages import open_view, panel, say
from tests.web.test_chat import ROME
from threadkeep import Source
from threadkeep.testing import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRANSFER = """([selector, kind, names]) => {
    const files = new DataTransfer();
    for (const name of names) files.items.add(new File(["x"], name, { type: "text/plain" }));
    const options = { bubbles: true, cancelable: true };
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: files })
        : new DragEvent(kind, { ...options, dataTransfer: files });
    document.querySelector(selector).dispatchEvent(event);
}"""
AWAY: list[tuple[str, dict[str, Any]]] = [
    ("run", {"run_id": "r", "thread_id": "t"}),
    ("memory_recalled", {"memories": [], "left_out": [], "tokens": 0, "degraded": ["storage"]}),
    ("token", {"text": "Hello.", "message_id": "m"}),
    ("done", {"run_id": "r", "thread_id": "t", "status": "done", "message_ids": ["q", "m"], "recorded": False}),
]


def live_regions(page: Page) -> int:
    """Return how many parts of the page announce their changes politely."""
    return page.locator("[aria-live=polite], [role=status]").count()


class TestConversation:
    def test_keys_copies_and_announcements(self, open_site: OpenSite):
        site = open_site(ScriptedModel(replies=("Run it:\n\n```\nmake\n```",)))
        page = site.open(permissions=["clipboard-read", "clipboard-write"])
        field = page.get_by_label("Message", exact=True)
        suggestions = page.get_by_role("list", name="Suggestions").get_by_role("button")
        suggestions.filter(has_text="I live in").click()
        expect(field).to_be_focused()
        expect(field).to_have_value("I live in ")
        expect(suggestions).to_have_count(0)
        field.fill("")
        field.press_sequentially("First")
        page.keyboard.press("Shift+Enter")
        field.press_sequentially("second")
        expect(field).to_have_value("First\nsecond")
        page.keyboard.press("Enter")
        expect(page.locator(".question p")).to_have_text("First\nsecond")
        expect(page.locator("[aria-live=polite]")).to_have_text("The reply is complete.")
        page.get_by_role("button", name="Copy code").click()
        expect(page.get_by_role("button", name="Copied")).to_have_count(1)
        assert page.evaluate("navigator.clipboard.readText()").strip() == "make"
        page.get_by_role("button", name="Copy", exact=True).click()
        expect(page.get_by_role("button", name="Copied")).to_have_count(2)
        assert page.evaluate("navigator.clipboard.readText()").startswith("Run it:")
        assert live_regions(page) == 1

    def test_files_are_dropped_and_pasted(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        page.evaluate(TRANSFER, [".composer", "drop", ["plan.txt", "film.mp4"]])
        expect(page.locator(".chosen-files")).to_contain_text("plan.txt")
        expect(page.locator(".refusals")).to_contain_text("film.mp4: files of this type")
        expect(page.locator("[aria-live=polite]")).to_contain_text("film.mp4: files of this type")
        page.evaluate(TRANSFER, ["#message", "paste", ["notes.md"]])
        expect(page.locator(".chosen-files")).to_contain_text("notes.md")
        page.get_by_role("button", name="Remove plan.txt").click()
        held: list[Route] = []
        page.route("**/api/chat/stream_files", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks the function
        say(page, "Sum it up", wait=False)
        expect(page.locator(".reply")).to_contain_text("Sending 1 file …")
        expect(page.locator(".sent-files li")).to_contain_text("%")
        held[0].continue_()
        expect(page.locator(".reply")).to_contain_text("Noted.")
        expect(page.locator(".sent-files li")).to_have_text(["notes.md"])
        assert live_regions(page) == 1

    def test_a_turn_without_an_answer_of_memory_says_so(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        lines = [
            f"id: r:{number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
            for number, (kind, data) in enumerate(AWAY, 1)
        ]
        page.route(
            "**/api/chat/stream", lambda route: route.fulfill(content_type="text/event-stream", body="".join(lines))
        )
        say(page, "Hello")
        expect(page.locator(".memory-line")).to_have_text("Memory was not available")
        expect(panel(page)).to_contain_text("Memory was not available")


class TestMemory:
    def test_a_correction_is_undone_and_a_statement_may_be_learnt_again(self, open_site: OpenSite):
        site = open_site()
        page = site.open()
        say(page, ROME)
        open_view(page, "Memory")
        rows = page.get_by_role("main").get_by_role("listitem")
        actions = rows.filter(has_text="I live in").first.get_by_role("button", name=re.compile("Actions")).first
        actions.click()
        page.get_by_role("menuitem", name="Correct").click()
        page.get_by_label("What is true").fill("I live in Oslo.")
        page.get_by_role("button", name="Save").click()
        expect(rows.first).to_contain_text("I live in Oslo.")
        page.locator(".toast").get_by_role("button", name="Undo").click()
        expect(rows.first).not_to_contain_text("Oslo")
        actions.click()
        page.get_by_role("menuitem", name="Forget").click()
        page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        expect(page.get_by_role("main")).to_contain_text("Forgotten")
        page.get_by_role("main").get_by_role("button", name="Memory", exact=True).click()
        page.get_by_role("menuitem", name="Not learnt again").click()
        lift = page.get_by_role("dialog").get_by_role("button", name="Lift")
        lift.first.wait_for()
        count = lift.count()
        lift.first.click()
        expect(page.locator(".toast").last).to_contain_text("It may be learnt again")
        expect(lift).to_have_count(count - 1)
        assert len(site.gateway.tk.sync.proposals.tombstones(owner=site.owner("ana"))) == count - 1

    def test_a_conflict_shows_both_texts(self, open_site: OpenSite):
        """What a file says against the user's word waits, beside what it would replace; approved, it is true."""
        site = open_site()
        owner, tk = site.owner("ana"), site.gateway.tk.sync
        known = tk.memories.remember(ROME, owner=owner).memory
        assert known is not None
        source = Source("document", thread_id="file")
        change: dict[str, Any] = {"action": "correct", "memory_id": known.memory_id, "base_revision": known.revision}
        tk.proposals.propose("I live in Quito.", owner=owner, source=source, **change)
        page = site.open()
        open_view(page, "Inbox")
        row = page.get_by_role("main").get_by_role("listitem")
        expect(row.locator("del")).to_have_text(ROME)
        expect(row.locator(".statement")).to_have_text("I live in Quito.")
        page.keyboard.press("a")
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert [one.text for one in tk.memories.list(owner=owner)] == ["I live in Quito."]

    def test_memories_are_exported_and_imported(self, open_site: OpenSite, tmp_path: Path):
        site = open_site()
        memories = site.gateway.tk.sync.memories
        memories.remember("I play the oboe.", owner=site.owner("bob"))
        page, menu = site.open("bob"), ("Export", "Import")
        open_view(page, "Memory")
        page.get_by_role("main").get_by_role("button", name="Memory", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=menu[0]).click()
        download.value.save_as(tmp_path / "memories.jsonl")
        other = site.open("ana")
        open_view(other, "Memory")
        other.get_by_label("Import", exact=True).set_input_files(tmp_path / "memories.jsonl")
        expect(other.get_by_role("main").get_by_role("listitem")).to_contain_text("I play the oboe.")
        assert [one.text for one in memories.list(owner=site.owner("ana"))] == ["I play the oboe."]
