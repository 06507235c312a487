"""What a user does on the page, for the tests of several views."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from playwright.sync_api import Locator, Page, expect

from threadkeep.testing import ScriptedModel


class SlowModel(ScriptedModel):
    """Pauses before each word, so that a test can act while it speaks."""

    async def _astream(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
            await asyncio.sleep(0.03)
            yield chunk


LAYOUT: Final = """() => {
    const shown = [...document.querySelectorAll("button, a, input, select, textarea, summary, [role=switch]")].filter(
        (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true }));
    const found = [];
    for (const one of shown) {
        const box = (one.closest("label.switch, label.search") ?? one).getBoundingClientRect();
        const inline = one.tagName === "A" && getComputedStyle(one).display === "inline";
        const hidden = box.width <= 1 || one.closest(".skip, .unseen");
        const small = box.width < 24 || box.height < 24;
        if (small && !inline && !hidden) found.push(`small target: ${one.outerHTML.slice(0, 120)}`);
    }
    const extra = document.scrollingElement.scrollWidth - innerWidth;
    return extra > 0 ? [...found, `the page is ${extra} pixels wider than the window`] : found;
}"""
"""WCAG 2.5.8 (links in a sentence are exempt) and 1.4.10."""


def say(page: Page, text: str, *, wait: bool = True) -> None:
    """Send a message, and wait for the end of the turn, and for what is learnt from it."""
    asked = page.locator(".question")
    count = asked.count()
    page.get_by_label("Message", exact=True).fill(text)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.keyboard.press("Enter")
    asked.nth(count).wait_for()  # from then on, until the end, there is no button to send
    if wait:
        page.get_by_role("button", name="Send").wait_for()
        expect(page.locator(".memory-line").filter(has_text="Learning …")).to_have_count(0)


def begin_chat(page: Page) -> None:
    """Begin a new conversation."""
    page.get_by_role("link", name="New chat").click()
    page.get_by_text("What shall we talk about?").wait_for()


def panel(page: Page) -> Locator:
    """Return the memory panel."""
    return page.get_by_role("complementary", name="Memory of this turn")


def open_view(page: Page, name: str) -> None:
    """Open the view that a link in the side leads to."""
    page.get_by_role("navigation", name="Views").first.get_by_role("link", name=name).click()
    page.get_by_role("main", name=name).wait_for()


def open_privacy(page: Page) -> None:
    """Open the view about privacy, which the profile menu leads to."""
    page.get_by_role("button", name="Profile of").click()
    page.get_by_role("menuitem", name="Privacy").click()
    page.get_by_role("heading", name="Erase everything").wait_for()
