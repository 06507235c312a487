"""What the page weighs, that it needs no mouse, and what it does with a server of another version."""

from __future__ import annotations

import gzip
import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.conftest import OpenSite
from tests.web.pages import LAYOUT, SlowModel, begin_chat, open_view, panel, say

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FIRST_LOAD_BYTES = 180_000
FIRST_LOAD_REQUESTS = 6
EMPTY = "<!doctype html><html lang=en><title>Empty</title><p>Empty"
FOCUSED_NAME = """() => {
    const element = document.activeElement;
    return element.ariaLabel || element.labels?.[0]?.textContent || element.textContent;
}"""


MEASURE = """() => new Promise((done) => {
    const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const long = [];
    new PerformanceObserver((list) => long.push(...list.getEntries())).observe({ type: "longtask", buffered: true });
    setTimeout(() => done({
        requests: entries.filter((one) => !one.name.startsWith("data:")).length,
        bytes: entries.reduce((sum, one) => sum + one.encodedBodySize, 0),
        milliseconds: long.reduce((sum, one) => sum + one.duration, 0),
    }), 200);
})"""


def test_the_first_load(open_site: OpenSite, assets: Path, capsys: pytest.CaptureFixture[str]):
    """At most 180 kB, gzipped, in at most 6 requests, of a user who is signed in; printed beside an empty page."""
    site = open_site()
    page = site.open()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    page.get_by_text("No conversations yet.").wait_for()
    page.wait_for_load_state("networkidle")
    measured = page.evaluate(MEASURE)
    paths = [urlsplit(url).path for url in requests if not url.startswith("data:")]
    names = ["index.html" if path == "/" else path.removeprefix("/") for path in paths]
    size = sum(len(gzip.compress((assets / name).read_bytes(), 9)) for name in names if (assets / name).is_file())
    page.route("**/empty", lambda route: route.fulfill(content_type="text/html", body=EMPTY))
    page.goto(f"{site.network.origin}/empty")
    empty = page.evaluate(MEASURE)
    with capsys.disabled():
        sys.stdout.write(
            f"\nfirst load: {size:,} bytes gzipped, {size / len(EMPTY):.0f} times an empty page; "
            f"{len(paths)} requests, "
            f"{measured['requests'] / empty['requests']:.0f} times; long tasks of {measured['milliseconds']:.0f} ms, "
            f"an empty page {empty['milliseconds']:.0f} ms\n"
        )

    assert len(paths) <= FIRST_LOAD_REQUESTS, paths
    assert 0 < size <= FIRST_LOAD_BYTES


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this name has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED_NAME)
        if focused and focused.startswith(name):
            return
    pytest.fail(f"Tab does not reach {name}.")


def test_the_story_by_keyboard_alone(open_site: OpenSite):  # noqa: PLR0915 - one story
    """Talk, recall, open the source, correct, edit, reject, search, forget, erase."""
    page = open_site().open()
    page.keyboard.type("I live in Rome.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("learnt 1")).to_be_visible()
    tab_to(page, "New chat")
    page.keyboard.press("Enter")
    page.get_by_text("What shall we talk about?").wait_for()
    tab_to(page, "Message")
    page.keyboard.type("Where do I live?")
    page.keyboard.press("Enter")
    panel(page).get_by_role("listitem").filter(has_text="I live in Rome").wait_for()
    tab_to(page, "Source")
    page.keyboard.press("Enter")
    expect(page.locator(".sought")).to_contain_text("I live in Rome.")
    tab_to(page, "Where do I live?")
    page.keyboard.press("Enter")
    expect(page.locator(".question")).to_contain_text("Where do I live?")
    tab_to(page, "Actions for the memory: I live in Rome")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Correct")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Pin")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_label("What is true")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("I live in Oslo.")
    tab_to(page, "Save")
    page.keyboard.press("Enter")
    expect(panel(page).get_by_role("listitem").filter(has_text="I live in Oslo.")).to_be_visible()

    tab_to(page, "Edit")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type("Always answer in French, please.")
    tab_to(page, "Send")
    page.keyboard.press("Enter")
    expect(page.get_by_text("2/2")).to_be_visible()
    expect(page.get_by_text("1 waits for you")).to_be_visible()
    tab_to(page, "Inbox")
    page.keyboard.press("Enter")
    page.get_by_role("main", name="Inbox").get_by_role("listitem").wait_for()
    page.keyboard.press("r")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()

    tab_to(page, "Memory")
    page.keyboard.press("Enter")
    tab_to(page, "Search memories")
    page.keyboard.type("Oslo")
    page.get_by_role("main", name="Memory").get_by_role("listitem").filter(has_text="Oslo").first.wait_for()
    tab_to(page, "Actions for the memory: I live in Oslo.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Correct")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Forget")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    tab_to(page, "Forget")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main", name="Memory")).to_contain_text("Forgotten")

    tab_to(page, "Profile of")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Privacy")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Erase everything").wait_for()
    tab_to(page, "Erase everything")
    page.keyboard.press("Enter")
    page.keyboard.type("ERASE")
    tab_to(page, "Erase everything")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("You are signed out.")
    tab_to(page, "Leave")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sign in").wait_for()


def test_nothing_is_cut_at_200_percent_and_nothing_moves_on_request(open_site: OpenSite):
    """A window of 1280 by 800 pixels at 200 %; with reduced motion, not even what is in progress moves."""
    site = open_site(SlowModel(replies=(" ".join(["word"] * 200),)))
    page = site.open(viewport={"width": 640, "height": 400}, device_scale_factor=2, reduced_motion="reduce")
    say(page, "I live in Rome.", wait=False)
    page.locator(".reply").first.wait_for()
    assert page.evaluate("document.getAnimations().length") == 0
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Send").wait_for()
    found = {"chat": page.evaluate(LAYOUT)}
    page.get_by_role("button", name="Memory panel").click()
    found["panel"] = page.evaluate(LAYOUT)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show conversations").click()
    found["conversations"] = page.evaluate(LAYOUT)
    page.keyboard.press("Escape")
    for view in ("memory", "inbox", "privacy"):
        page.evaluate(f"location.hash = '#/{view}'")
        page.get_by_role("heading", level=1).wait_for()
        page.wait_for_load_state("networkidle")
        found[view] = page.evaluate(LAYOUT)

    assert {view: one for view, one in found.items() if one} == {}


def answer_as(version: str, route: Route) -> None:
    """Answer as a server of another version."""
    response = route.fetch()
    route.fulfill(response=response, headers={**response.headers, "x-threadkeep-version": version})


class TestOtherVersions:
    def test_an_older_or_newer_server_is_named(self, open_site: OpenSite):
        """The page offers to reload, and still works; it says nothing of a server of its version."""
        site = open_site()
        page = site.open()
        answers = page.locator(".banner").filter(has_text="The server has another version than this page.")
        say(page, "I live in Rome.")
        expect(answers).to_have_count(0)
        for version in ("0.0.1", "99.0.0"):
            page.evaluate("location.hash = '#/'")
            page.reload()
            page.route("**/api/proposals*", partial(answer_as, version))
            open_view(page, "Inbox")
            expect(answers).to_be_visible()
            page.unroute_all(behavior="wait")  # an answer may be on its way
        begin_chat(page)
        page.get_by_label("Message", exact=True).fill("I keep bees.")
        page.get_by_role("button", name="Reload").click()
        expect(page.get_by_label("Message", exact=True)).to_have_value("I keep bees.")
        expect(answers).to_have_count(0)
        page.reload()
        expect(page.get_by_label("Message", exact=True)).to_have_value("")

    def test_a_newer_server_without_the_files_of_this_page(self, open_site: OpenSite):
        """The view says so and offers to reload the page."""
        site = open_site()
        page = site.open()
        page.route("**/assets/memory-view*.js", lambda route: route.fulfill(status=404, body="There is no such file."))
        page.evaluate("location.hash = '#/memory'")
        expect(page.get_by_text("The server may be newer than the page.")).to_be_visible()
        page.unroute("**/assets/memory-view*.js")
        page.get_by_role("button", name="Reload").click()
        expect(page.get_by_role("main", name="Memory")).to_be_visible()

    def test_an_older_server_without_a_route(self, open_site: OpenSite):
        """What it does not have is named; the rest works."""
        site = open_site()
        page = site.open()
        say(page, "I live in Rome.")
        body = {"code": "not_found", "detail": "Not Found"}
        page.route("**/turns", lambda route: route.fulfill(status=404, json=body))
        page.reload()
        expect(page.locator(".reply")).to_contain_text("Noted.")
        say(page, "Where do I live?")
        expect(page.get_by_text("Recalled 1")).to_be_visible()


def test_a_page_without_javascript_says_what_it_needs(open_site: OpenSite):
    site = open_site()
    context = site.browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.network.origin)
    assert "This page needs JavaScript" in page.locator("body").inner_text()
    context.close()
