"""Long lists: however much there is, the document holds what is visible, and a view asks the server as often."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from playwright.sync_api import Page, expect

from tests.web.conftest import GatewaySite, OpenSite
from tests.web.pages import say
from threadkeep.memories.models import NewMemory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MOST_NODES = 3_000
"""Elements of the whole document, dialogs and menus included."""

MOST_REQUESTS = 8


def fill(site: GatewaySite, memories: int, threads: int, messages: int) -> None:
    """Give ana so much, by the public interface of the server's own client."""
    owner = site.owner("ana")
    mine = site.gateway.tk.for_owner(owner).sync
    texts = [
        f"Fact number {number}: thing {number % 97} stands beside thing {number % 89}." for number in range(memories)
    ]
    for start in range(0, memories, 500):
        mine.memories.remember_many([NewMemory(text) for text in texts[start : start + 500]])
    for number in range(threads):
        mine.threads.create(f"t{number}", title=f"Conversation {number}")
    said: list[Any] = []
    for number in range(messages // 2):
        said += [
            HumanMessage(f"Question {number}?", id=f"q{number}"),
            AIMessage(f"Answer **{number}**.", id=f"a{number}"),
        ]
    config = site.gateway.tk.per_run_owner().config(owner, thread_id="long")
    update = site.gateway.app.state.gateway.graph.aupdate_state(config, {"messages": said})
    asyncio.run_coroutine_threadsafe(update, site.gateway.loop).result()


def nodes(page: Page) -> int:
    """Return how many elements the document has."""
    return page.evaluate("document.querySelectorAll('*').length")


def scroll(page: Page, selector: str, pixels: int, times: int) -> None:
    """Turn the wheel over an element."""
    page.locator(selector).hover()
    for _ in range(times):
        page.mouse.wheel(0, pixels)
        page.wait_for_timeout(20)


@pytest.mark.parametrize(
    ("memories", "threads", "messages"), [(300, 100, 200), pytest.param(10_000, 1_500, 2_000, marks=pytest.mark.soak)]
)
def test_what_is_not_visible_is_not_in_the_document(open_site: OpenSite, memories: int, threads: int, messages: int):
    site = open_site()
    fill(site, memories, threads, messages)
    page = site.open()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    page.locator(".thread-row").first.wait_for()
    page.wait_for_load_state("networkidle")
    seen = {"conversations": nodes(page)}
    assert len(requests) <= MOST_REQUESTS, requests
    scroll(page, ".groups", 4_000, 2 * threads // 25)
    expect(page.locator(".groups").get_by_text("Conversation 0", exact=True)).to_be_visible()
    seen["the oldest conversation"] = nodes(page)

    requests.clear()
    page.evaluate("location.hash = '#/memory'")
    page.locator(".memory-row").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert len(requests) <= MOST_REQUESTS, requests
    seen["memories"] = nodes(page)
    for _ in range(10):  # a busy server answers the next page late, and the wheel turns in vain until then
        scroll(page, ".memory-rows", 6_000, memories // 20)
        page.wait_for_load_state("networkidle")
        if page.locator(".memory-row").get_by_text("Fact number 0:").count():
            break
    assert len([one for one in requests if "/api/memories?" in one]) == memories // 100
    seen["the oldest memory"] = nodes(page)

    requests.clear()
    page.evaluate("location.hash = '#/chat/long'")
    page.get_by_text(f"Question {messages // 2 - 1}?").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert len(requests) <= MOST_REQUESTS, requests
    seen["a long conversation"] = nodes(page)
    scroll(page, ".exchanges", -20_000, messages // 20)
    expect(page.get_by_text("Question 0?", exact=True)).to_be_visible()
    seen["its beginning"] = nodes(page)
    ask(page)
    seen["a turn in it"] = nodes(page)

    assert {name: count for name, count in seen.items() if count > MOST_NODES} == {}
    assert site.problems == []


def ask(page: Page) -> None:
    """Have a turn in a conversation of which the document holds what is visible only."""
    page.get_by_label("Message", exact=True).fill("And one more")
    page.keyboard.press("Enter")
    expect(page.locator(".question").filter(has_text="And one more")).to_be_visible()
    page.get_by_role("button", name="Send").wait_for()


@dataclass(frozen=True, slots=True)
class Work:
    """Processor time of a page's main thread, whatever else the machine does.

    Attributes:
        milliseconds: In all, the average of some times.
        longest: Of the longest task, in milliseconds; it is what a user may have to wait for.
    """

    milliseconds: float
    longest: float


def work(page: Page, act: Callable[[], object], *, times: int = 10) -> Work:
    """Return what the main thread does for *act* and the two frames after it."""
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["toplevel"])
    for _ in range(times):
        act()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    events = json.loads(browser.stop_tracing())["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    tasks = [
        (one["pid"], one.get("tdur", 0) / 1_000)
        for one in events
        if one["name"].endswith("RunTask") and names.get((one["pid"], one["tid"])) == "CrRendererMain"
    ]
    worked: dict[int, list[float]] = defaultdict(list)
    for process, milliseconds in tasks:
        worked[process].append(milliseconds)
    most = max(worked.values(), key=sum)  # the other pages do nothing
    return Work(sum(most) / times, max(most))


def interactions(page: Page, thread: str) -> dict[str, Work]:
    """Return the work of what a user does among the memories and in a conversation."""

    def open_view(address: str, row: str) -> None:
        page.evaluate("address => { location.hash = address }", address)
        page.locator(row).first.wait_for()
        page.wait_for_load_state("networkidle")

    costs = {"open the memories": work(page, lambda: open_view("#/memory", ".memory-row"), times=1)}
    page.locator(".memory-rows").hover()
    costs["scroll memories"] = work(page, lambda: page.mouse.wheel(0, 400))
    page.get_by_label("Search memories").focus()
    costs["search memories"] = work(page, lambda: page.keyboard.press("a"))
    page.get_by_label("Search memories").fill("")
    pinned = page.get_by_role("button", name="Pinned only")
    costs["filter memories"] = work(page, pinned.click)
    costs["open a conversation"] = work(page, lambda: open_view(f"#/chat/{thread}", ".question"), times=1)
    field = page.get_by_label("Message", exact=True)
    field.focus()
    costs["write"] = work(page, lambda: page.keyboard.press("a"))
    field.fill("")
    costs["fold the panel"] = work(page, page.get_by_role("button", name="Memory panel").click)
    page.locator(".exchanges").hover()
    costs["scroll a conversation"] = work(page, lambda: page.mouse.wheel(0, -400))
    costs["a turn"] = work(page, lambda: ask(page), times=1)
    return costs


INDEPENDENT: Final = ("write", "fold the panel", "search memories", "filter memories")
"""What a user does often; few items and many cost alike."""

MOST_TIMES_FEW: Final = 5


@pytest.mark.parametrize(
    ("memories", "threads", "messages"), [(300, 100, 200), pytest.param(10_000, 1_500, 2_000, marks=pytest.mark.soak)]
)
def test_interactions_do_not_depend_on_how_much_there_is(
    open_site: OpenSite, capsys: pytest.CaptureFixture[str], memories: int, threads: int, messages: int
):
    """In processor time of the main thread, beside a user with twenty memories; printed beside an empty page, too."""
    site = open_site()
    fill(site, memories, threads, messages)
    bob = site.gateway.tk.for_owner(site.owner("bob")).sync
    bob.memories.remember_many([NewMemory(f"Fact number {number}: a thing.") for number in range(20)])
    few = site.open("bob")
    say(few, "Question 0?")
    thread = few.evaluate("location.hash.split('/')[2]")
    small, large = interactions(few, thread), interactions(site.open(), "long")
    few.route("**/empty", lambda route: route.fulfill(content_type="text/html", body="<textarea autofocus></textarea>"))
    few.goto(f"{site.network.origin}/empty")
    empty = work(few, lambda: few.keyboard.press("a"))
    with capsys.disabled():
        sys.stdout.write("\nprocessor time of the main thread; beside few items; beside a letter in an empty page:\n")
        for name, cost in large.items():
            sys.stdout.write(
                f"{name}: {cost.milliseconds:.1f} ms, {cost.milliseconds / small[name].milliseconds:.1f} times; "
                f"longest task {cost.longest:.1f} ms, {cost.longest / small[name].longest:.1f} times, "
                f"{cost.longest / empty.longest:.0f} times\n"
            )

    ratios = {name: large[name].milliseconds / small[name].milliseconds for name in INDEPENDENT}
    assert {name: ratio for name, ratio in ratios.items() if ratio > MOST_TIMES_FEW} == {}
