"""Every view at three widths, light and dark: pictures, which CI keeps, and what axe finds, which is nothing."""

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


AXE: Final = web.SOURCES / "node_modules" / "axe-core" / "axe.min.js"
AXE_LOOKS: Final = frozenset({("wide", "light"), ("wide", "dark"), ("phone", "dark")})
MARKDOWN: Final = (
    "# Plan\n\n1. Walk\n2. [Rest](https://example.com)\n\n```\ncode\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done"
)


class Gallery:
    """Takes pictures of a page, and notes what axe finds in it, and what is too small or too wide."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.faults: list[str] = []
        page.emulate_media(reduced_motion="reduce")  # colours in transition are no colours of the design

    def take(self, name: str) -> None:
        """Write six pictures of what is shown: light and dark, on a wide screen, a tablet and a phone."""
        for width in WIDTHS:
            self.resize(width)
            for scheme in ("light", "dark"):
                self._page.emulate_media(color_scheme=scheme)
                self.picture(f"{name}-{width}-{scheme}")
                if (width, scheme) in AXE_LOOKS:
                    self.check(f"{name}, {width}, {scheme}")
            self.faults += [f"{name}, {width}: {fault}" for fault in self._page.evaluate(LAYOUT)]
        self.resize("wide")

    def resize(self, width: str) -> None:
        """Change the width of the window."""
        self._page.set_viewport_size({"width": WIDTHS[width], "height": 800})

    def picture(self, name: str) -> None:
        """Write one picture of what is shown as it is."""
        (PICTURES / f"{name}.png").write_bytes(self._page.screenshot(animations="disabled"))

    def check(self, name: str) -> None:
        """Note what axe finds."""
        if not self._page.evaluate("'axe' in window"):
            self._page.evaluate(AXE.read_text("utf-8"))
        found = self._page.evaluate("async () => (await axe.run({ resultTypes: ['violations'] })).violations")
        self.faults += [f"{name}: {one['id']}: {[node['html'][:200] for node in one['nodes']]}" for one in found]


def test_axe_finds_nothing_in_any_view(open_site: OpenSite, provider: OidcProvider, tmp_path: Path):
    """A picture is taken of each, light and dark, at three widths."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for earlier in PICTURES.glob("*.png"):
        earlier.unlink()
    provider.groups["ana"] = ["staff"]
    site = open_site(ScriptedModel(replies=(MARKDOWN, "Noted.", PLAN)), group_scopes={"staff": ["admin"]})
    add_dead_turn(f"sqlite:///{tmp_path / 'memory.db'}", site.owner("bo"), "I live in Quito.", "one")
    context = site.browser.new_context()
    outside = context.new_page()
    outside.goto(site.network.origin)
    outside.get_by_role("button", name="Sign in").wait_for()
    entrance = Gallery(outside)
    entrance.take("sign-in")
    context.close()

    page = site.open()
    gallery = Gallery(page)
    page.get_by_text("No conversations yet.").wait_for()
    gallery.take("new")
    page.evaluate("location.hash = '#/memory'")
    expect(page.get_by_text("Nothing is remembered yet.")).to_be_visible()
    gallery.take("memory-empty")
    page.evaluate("location.hash = '#/inbox'")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    gallery.take("inbox-empty")
    _talk(site, page, gallery)
    gallery.take("chat")
    _panel(page, gallery)
    _views(page, gallery)
    _operator(page, gallery, site.owner("ana").label)

    assert entrance.faults + gallery.faults == []
    assert {name for name in web.IMAGES.values() if not (PICTURES / name).is_file()} == set()


def _talk(site: GatewaySite, page: Page, gallery: Gallery) -> None:
    owner = site.owner("ana")
    for text in FACTS:
        site.gateway.tk.sync.memories.remember(text, owner=owner)
    page.evaluate("location.hash = '#/'")
    say(page, "I live in Porto. Always answer briefly, please.")
    say(page, "I live in Lisbon now.")
    gallery.check("code and tasks, wide, dark")
    begin_chat(page)
    source = Source("document", thread_id="plan")
    site.gateway.tk.sync.proposals.propose("Ana's budget for a trip is 400 euros.", owner=owner, source=source)
    say(page, "How do I travel to my sister without a plane, and what about my allergy where I live?")
    panel(page).get_by_role("listitem").first.wait_for()
    expect(page.locator(".toast")).to_have_count(0)


def _panel(page: Page, gallery: Gallery) -> None:
    gallery.resize("phone")
    memory, conversations = page.locator(".memory-line").last, page.get_by_role("button", name="Show conversations")
    for name, drawer in (("panel", memory), ("conversations", conversations)):
        drawer.click()
        page.locator(".side.open").get_by_role("listitem").first.wait_for()
        gallery.check(f"{name}, phone, dark")
        page.emulate_media(color_scheme="light")
        gallery.picture(f"{name}-phone-light")
        page.keyboard.press("Escape")
        page.emulate_media(color_scheme="dark")
    gallery.resize("wide")
    actions = panel(page).get_by_role("button", name=re.compile("Actions for")).first
    actions.click()
    gallery.take("menu")
    page.get_by_role("menuitem", name="Correct").click()
    gallery.take("edit")
    page.keyboard.press("Escape")
    actions.click()
    page.get_by_role("menuitem", name="Forget").click()
    page.get_by_role("dialog").get_by_text("in no conversation").wait_for()
    gallery.take("forget")
    page.keyboard.press("Escape")


def _views(page: Page, gallery: Gallery) -> None:
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
    page.get_by_label("Leave a conversation out").select_option(index=1)
    page.get_by_role("button", name="Do not remember it").click()
    page.get_by_role("list", name="Conversations that are not remembered").wait_for()
    gallery.take("privacy")
    page.get_by_role("button", name="Erase everything").click()
    gallery.take("erase")
    page.keyboard.press("Escape")


def _operator(page: Page, gallery: Gallery, label: str) -> None:
    page.evaluate("location.hash = '#/operator'")
    page.get_by_role("group", name="Turns not learnt from").wait_for()
    page.wait_for_load_state("networkidle")
    gallery.take("operator")
    page.evaluate("label => { location.hash = `#/operator/${encodeURIComponent(label)}` }", label)
    page.get_by_role("group", name="Audit").wait_for()
    for table in page.get_by_text("As a table").all():
        table.click()
    gallery.check("owner, wide, dark")
    page.get_by_role("button", name="Suspend").click()
    gallery.check("suspend, wide, dark")
