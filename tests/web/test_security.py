"""300 strings that would be scripts, through every place where the page shows text: none runs, none fetches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from playwright.sync_api import Page, expect

from tests.web.conftest import GatewaySite, OpenSite
from tests.web.pages import open_view, say
from tests.web.xss import STRINGS
from threadkeep.memories.models import Source
from threadkeep.testing import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WATCH = """
window.hits = [];
window.hit = (number) => window.hits.push(number);
document.addEventListener("securitypolicyviolation", (event) => window.hits.push(event.violatedDirective));
"""
EVERYTHING = "\n\n".join(STRINGS)


@tool
def look_up() -> str:
    """Return what a web page says."""
    return EVERYTHING


def agent_with_a_tool(tk: Any) -> Any:
    call = {"name": "look_up", "args": {"query": EVERYTHING[:2_000]}, "id": "c1"}
    model = ScriptedModel(replies=(AIMessage("", tool_calls=[call]), EVERYTHING, *STRINGS))
    return tk.per_run_owner().graph(model=model, tools=[look_up])


def scroll_through(page: Page, selector: str, row: str = "li") -> int:
    """Show every row of a virtual list, and return how many different rows there were."""
    return page.evaluate(
        """async ([selector, row]) => {
            const box = document.querySelector(selector);
            const seen = new Set();
            const pause = (time) => new Promise((done) => requestAnimationFrame(() => setTimeout(done, time)));
            for (let top = 0; top <= box.scrollHeight; top += box.clientHeight / 2) {
                box.scrollTop = top;
                await pause(top + box.clientHeight >= box.scrollHeight ? 600 : 15);  // the next page may be on its way
                for (const one of box.querySelectorAll(row)) seen.add(one.textContent);
            }
            return seen.size;
        }""",
        [selector, row],
    )


def hits(page: Page) -> list[Any]:
    """Return what ran or was refused by the policy, after every link and picture had its chance."""
    page.wait_for_timeout(200)
    return page.evaluate("window.hits")


def watched(site: GatewaySite, user: str = "ana") -> Page:
    page = site.open(user, script=WATCH)
    assert page.evaluate("window.hits") == []
    return page


def sign_in_as(site: GatewaySite, users: Sequence[str]) -> None:
    """Sign in with each of these names, and find it in the page as it is."""
    page = watched(site, "ana")
    for user in users:
        page.context.clear_cookies()
        site.sign_in(page, user)
        page.get_by_role("button", name="Profile of").click()
        assert page.locator(".user").text_content() == user
        assert hits(page) == []
    assert site.foreign == []
    assert site.problems == []


def test_there_are_300_strings():
    assert len(set(STRINGS)) == 300


def test_the_watch_sees_a_script_that_runs(open_site: OpenSite):
    """Otherwise the tests below would prove nothing: a handler in markup is refused, and the refusal is seen."""
    page = watched(open_site())
    page.evaluate("hit(7)")
    page.evaluate("try { document.createElement('p').setAttribute('onclick', 'hit(1)') } catch { }")
    assert page.evaluate("window.hits")[0] == 7
    assert "require-trusted-types-for" in hits(page)


class TestChat:
    def test_messages_replies_and_tools(self, open_site: OpenSite):
        site = open_site(graph=agent_with_a_tool)
        page = watched(site)
        say(page, EVERYTHING[:60_000])
        page.get_by_text("Tool: look_up").click()
        expect(page.locator(".tool pre").last).to_contain_text("onerror")
        for link in page.locator(".markdown a").all():
            assert (link.get_attribute("href") or "").split(":")[0] in ("http", "https", "mailto")
            assert link.get_attribute("rel") == "noopener noreferrer"
        assert (
            page.locator(".markdown").locator("script, img, iframe, style, svg:not(.icon), object, embed, form").count()
            == 0
        )
        page.reload()
        page.locator(".reply .markdown").first.wait_for()
        assert hits(page) == []
        assert site.foreign == []
        assert site.problems == []

    def test_file_names(self, open_site: OpenSite):
        site = open_site()
        page = watched(site)
        files: Any = [{"name": f"{one}.txt", "mimeType": "text/plain", "buffer": b"x"} for one in STRINGS]
        page.locator("input[type=file]").set_input_files(files)
        expect(page.locator(".refusals li")).to_have_count(295)
        say(page, "Sum it up")
        expect(page.locator(".sent-files li")).to_have_count(5)
        assert hits(page) == []
        assert site.foreign == []


@pytest.mark.parametrize("strings", [STRINGS[::3], pytest.param(STRINGS, marks=pytest.mark.soak)], ids=["third", "all"])
class TestLists:
    """Every third string in CI; the model says all of them, and so does its tool."""

    def test_memories_titles_and_search(self, open_site: OpenSite, strings: Sequence[str]):
        site = open_site()
        mine = site.gateway.tk.sync
        owner = site.owner("ana")
        for number, text in enumerate(strings):
            mine.memories.remember(f"Number {number} {text}", owner=owner)
            site.gateway.tk.for_owner(owner).sync.threads.create(f"t{number}", title=text[:200])
        page = watched(site)
        expect(page.locator(".groups .thread-row").first).to_be_visible()
        assert scroll_through(page, ".groups", ".thread-row") >= len(strings) * 29 // 30
        for text in strings[::40]:
            page.get_by_label("Search conversations").fill(text)
        open_view(page, "Memory")
        assert scroll_through(page, ".memory-rows") >= len(strings) * 29 // 30
        for text in strings[::40]:
            with page.expect_response(lambda answer: "/api/memories/search" in answer.url):
                page.get_by_label("Search memories").fill(text)
            page.locator(".memory-row").first.wait_for()
        # In one step: while the results of the last search replace the list, the pressed link may be gone before it is
        # released.
        page.get_by_role("link", name="Details").first.evaluate("link => link.click()")
        page.get_by_role("heading", name="History").wait_for()
        assert hits(page) == []
        assert site.foreign == []
        assert site.problems == []

    def test_proposals(self, open_site: OpenSite, strings: Sequence[str]):
        site = open_site()
        for start, user in zip(range(0, len(strings), 100), ("ana", "bo", "cy"), strict=False):  # the view shows 100
            for number, text in enumerate(strings[start : start + 100]):
                site.gateway.tk.sync.proposals.propose(
                    f"Number {number} {text}", owner=site.owner(user), source=Source("tool")
                )
            page = watched(site, user)
            open_view(page, "Inbox")
            expect(page.locator(".proposal-row")).to_have_count(100)
            assert hits(page) == []
        assert site.foreign == []


class TestNamesAndSearches:
    def test_names_of_users(self, open_site: OpenSite):
        sign_in_as(open_site(), STRINGS[3:57:13])

    @pytest.mark.soak
    @pytest.mark.timeout(3_600)
    @pytest.mark.parametrize("start", range(0, 300, 60))
    def test_every_name_of_a_user(self, open_site: OpenSite, start: int):
        sign_in_as(open_site(), STRINGS[start : start + 60])

    @pytest.mark.soak
    @pytest.mark.timeout(3_600)
    def test_every_search(self, open_site: OpenSite):
        site = open_site()
        site.gateway.tk.sync.memories.remember("I live in Rome.", owner=site.owner("ana"))
        page = watched(site)
        for text in STRINGS:
            with page.expect_response(lambda answer: "/api/threads?title=" in answer.url):
                page.get_by_label("Search conversations").fill(text)
        open_view(page, "Memory")
        for text in STRINGS:
            with page.expect_response(lambda answer: "/api/memories/search" in answer.url):
                page.get_by_label("Search memories").fill(text)
        assert hits(page) == []
        assert site.foreign == []
