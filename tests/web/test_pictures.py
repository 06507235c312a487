"""Pictures of every view: three widths, light and dark. CI keeps them, and some are in the documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.dead_turns import add_dead_turn
from tests.gateway.oidc import OidcProvider
from tests.web.conftest import GatewaySite, OpenSite
from tests.web.pages import LAYOUT, begin_chat, open_privacy, panel, say
from threadkeep import Source
from threadkeep.testing import ScriptedModel
from tools import web

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PICTURES: Final = web.PICTURES
WIDTHS: Final[Mapping[str, int]] = {"wide": 1280, "middle": 820, "phone": 390}
PLAN = (
    "Since you live in Lisbon and travel by train, take the night train on Friday:\n\n"
    "| from | to | leaves |\n|---|---|---|\n| Lisbon | Madrid | 21:34 |\n| Madrid | Valencia | 09:15 |\n\n"
    "The kitchen of the hotel cooks **without nuts**. Shall I reserve two seats?"
)
FACTS = ("I travel by train rather than by plane.", "I am allergic to nuts.", "My sister Ines studies in Valencia.")


class Gallery:
    """Takes pictures of a page, and notes what is too small or too wide in any of them."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.faults: list[str] = []

    def take(self, name: str) -> None:
        """Write six pictures of what is shown: light and dark, on a wide screen, a tablet and a phone."""
        for width_name, width in WIDTHS.items():
            self._page.set_viewport_size({"width": width, "height": 800})
            for scheme in ("light", "dark"):
                self._page.emulate_media(color_scheme=scheme)
                path = PICTURES / f"{name}-{width_name}-{scheme}.png"
                path.write_bytes(self._page.screenshot(animations="disabled"))
            self.faults += [f"{name}, {width_name}: {fault}" for fault in self._page.evaluate(LAYOUT)]
        self._page.set_viewport_size({"width": WIDTHS["wide"], "height": 800})


def test_every_view_is_pictured(open_site: OpenSite, provider: OidcProvider, tmp_path: Path):
    PICTURES.mkdir(parents=True, exist_ok=True)
    for earlier in PICTURES.glob("*.png"):
        earlier.unlink()
    provider.groups["ana"] = ["staff"]
    site = open_site(ScriptedModel(replies=("Noted.", "Noted.", PLAN)), group_scopes={"staff": ["admin"]})
    add_dead_turn(f"sqlite:///{tmp_path / 'memory.db'}", site.owner("bo"), "I live in Quito.", "one")
    context = site.browser.new_context()
    outside = context.new_page()
    outside.goto(site.network.origin)
    outside.get_by_role("button", name="Sign in").wait_for()
    gallery = Gallery(outside)
    gallery.take("sign-in")
    context.close()

    page = site.open()
    gallery = Gallery(page)
    gallery.take("new")
    page.evaluate("location.hash = '#/memory'")
    expect(page.get_by_text("Nothing is remembered yet.")).to_be_visible()
    gallery.take("memory-empty")
    page.evaluate("location.hash = '#/inbox'")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    gallery.take("inbox-empty")
    _talk(site, page)
    gallery.take("chat")
    _views(page, gallery)

    assert gallery.faults == []
    assert {name for name in web.IMAGES.values() if not (PICTURES / name).is_file()} == set()


def _talk(site: GatewaySite, page: Page) -> None:
    owner = site.owner("ana")
    for text in FACTS:
        site.gateway.tk.sync.memories.remember(text, owner=owner)
    page.evaluate("location.hash = '#/'")
    say(page, "I live in Porto. Always answer briefly, please.")
    say(page, "I live in Lisbon now.")
    begin_chat(page)
    source = Source("document", thread_id="plan")
    site.gateway.tk.sync.proposals.propose("Ana's budget for a trip is 400 euros.", owner=owner, source=source)
    say(page, "How do I travel to my sister without a plane, and what about my allergy where I live?")
    panel(page).get_by_role("listitem").first.wait_for()
    expect(page.locator(".toast")).to_have_count(0)


def _views(page: Page, gallery: Gallery) -> None:
    for drawer, name in (("Memory panel", "panel"), ("Show conversations", "conversations")):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": WIDTHS["phone"], "height": 800})
        page.get_by_role("button", name=drawer).click()
        (PICTURES / f"{name}-phone-light.png").write_bytes(page.screenshot(animations="disabled"))
        page.keyboard.press("Escape")
    page.set_viewport_size({"width": WIDTHS["wide"], "height": 800})
    panel(page).get_by_role("button", name=re.compile("Actions for")).first.click()
    gallery.take("menu")
    page.get_by_role("menuitem", name="Forget").click()
    page.wait_for_load_state("networkidle")
    gallery.take("forget")
    page.keyboard.press("Escape")
    for view in ("memory", "inbox"):
        page.evaluate(f"location.hash = '#/{view}'")
        page.get_by_role("main").get_by_role("listitem").first.wait_for()
        page.wait_for_load_state("networkidle")
        gallery.take(view)
    page.evaluate("location.hash = '#/memory'")
    lisbon = page.get_by_role("main").get_by_role("listitem").filter(has_text="Lisbon").first
    lisbon.get_by_role("link", name="Details").first.click()
    page.get_by_role("heading", name="History").wait_for()
    page.wait_for_load_state("networkidle")
    gallery.take("memory-detail")
    open_privacy(page)
    page.wait_for_load_state("networkidle")
    gallery.take("privacy")
    page.get_by_role("button", name="Erase everything").click()
    gallery.take("erase")
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#/operator'")
    page.get_by_role("group", name="Turns not learnt from").wait_for()
    page.wait_for_load_state("networkidle")
    gallery.take("operator")
