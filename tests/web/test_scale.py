"""Long lists: however much there is, the document holds what is visible, and a view asks the server as often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from playwright.sync_api import Page, expect

from tests.web.conftest import GatewaySite, OpenSite
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
    ("memories", "threads", "messages"), [(600, 250, 400), pytest.param(10_000, 1_500, 2_000, marks=pytest.mark.soak)]
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
    scroll(page, ".memory-rows", 6_000, memories // 20)
    page.wait_for_load_state("networkidle")
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
    page.get_by_label("Message", exact=True).fill("And one more")
    page.keyboard.press("Enter")
    expect(page.locator(".question").filter(has_text="And one more")).to_be_visible()
    page.get_by_role("button", name="Send").wait_for()
    seen["a turn in it"] = nodes(page)

    assert {name: count for name, count in seen.items() if count > MOST_NODES} == {}
    assert site.problems == []
