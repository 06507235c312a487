"""The view about privacy: what is kept, opting out, the export, and erasing everything."""

from __future__ import annotations

import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Error, expect

from tests.web.conftest import OpenSite
from tests.web.pages import begin_chat, open_privacy, open_view, say
from threadkeep.testing import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AWAY: Final = (
    ("memory", r"/api/memories\?", "Memory"),
    ("inbox", r"/api/proposals", "Inbox"),
    ("inbox", r"/api/threads\?", "Conversations"),
    ("privacy", "/api/me/privacy", "What is kept"),
)
"""A view, the requests that are answered with 503, and the part that the view names."""


class TestPrivacy:
    def test_see_opt_out_export_and_erase(self, open_site: OpenSite, tmp_path: Path):  # noqa: PLR0915 - one story
        """The export has the user's texts alone; after the erasure the session has ended and nothing is left."""
        site = open_site(ScriptedModel(replies=("Noted.",)))
        site.gateway.tk.sync.memories.remember("I live in Xanadu.", owner=site.owner("bo"))
        page = site.open()
        say(page, "I live in Rome.")
        open_privacy(page)
        kept = page.get_by_role("group", name="What is kept").get_by_role("row")
        expect(kept.filter(has_text="Conversations")).to_contain_text("you delete them")
        expect(kept.filter(has_text="Memories")).to_contain_text("on the server (sqlite)")
        receivers = page.get_by_role("group", name="Who receives text")
        expect(receivers).to_contain_text("embedder")
        assert str(tmp_path) not in page.content()

        page.get_by_label("Leave a conversation out").select_option(label="I live in Rome.")
        page.get_by_role("button", name="Do not remember it").click()
        expect(page.get_by_text("“I live in Rome.” is not remembered.")).to_be_visible()
        page.get_by_role("link", name="I live in Rome.").click()
        say(page, "I have a dog called Rex.")
        open_privacy(page)
        page.get_by_role("button", name="Remember again: “I live in Rome.”").click()
        expect(page.get_by_text("is not remembered.")).to_be_hidden()
        page.get_by_text("Remember me").click()
        expect(page.get_by_role("switch")).not_to_be_checked()
        expect(page.get_by_label("Leave a conversation out")).to_be_hidden()
        begin_chat(page)
        say(page, "I have a cat called Tom.")
        open_privacy(page)
        page.get_by_text("Remember me").click()
        expect(page.get_by_role("switch")).to_be_checked()
        texts = " ".join(one.text for one in site.gateway.tk.sync.memories.list(owner=site.owner("ana")))
        assert ("Rome" in texts, "Rex" in texts, "Tom" in texts) == (True, False, False)

        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "export.zip")
        with zipfile.ZipFile(tmp_path / "export.zip") as archive:
            assert sorted(archive.namelist()) == ["README.md", "export.jsonl"]
            exported = archive.read("export.jsonl").decode()
        assert "Rome" in exported
        assert "Xanadu" not in exported

        page.get_by_role("button", name="Erase everything").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Type ERASE to go on").fill("erase")
        expect(dialog.get_by_role("button", name="Erase everything")).to_be_disabled()
        dialog.get_by_label("Type ERASE to go on").fill("ERASE")
        dialog.get_by_role("button", name="Erase everything").click()
        expect(dialog).to_contain_text("You are signed out.")
        number = dialog.locator("dd").first.inner_text()
        assert number in {one.receipt_id for one in site.gateway.tk.sync.owners.erasure_receipts()}
        assert page.request.get(f"{site.network.origin}/api/me").status == 401
        dialog.get_by_role("button", name="Leave").click()
        site.sign_in(page, "ana")
        open_view(page, "Memory")
        expect(page.get_by_text("Nothing is remembered yet.")).to_be_visible()
        expect(page.get_by_label("Search memories")).to_have_count(0)  # there is nothing to search in
        assert len(site.gateway.tk.sync.memories.list(owner=site.owner("bo"))) == 1
        assert site.problems == []

    def test_a_view_names_the_part_that_is_away_and_shows_the_rest(self, open_site: OpenSite):
        """It does not say that there is nothing, and reads the part again when the user asks."""
        site = open_site()
        page = site.open()
        for view, address, part in AWAY:
            route = re.compile(address)
            page.route(route, lambda one: one.fulfill(status=503, json={"code": "x", "detail": "x"}))
            page.evaluate(f"location.hash = '#/{view}'")
            page.reload()
            away = page.get_by_role("alert").filter(has_text=f"“{part}” cannot be read now; the rest works.")
            expect(away).to_be_visible()
            assert part != "Inbox" or page.get_by_text("Nothing waits for you.").count() == 0
            if view == "privacy":
                expect(page.get_by_role("switch")).to_be_checked()
            retry = away.get_by_role("button", name="Try again")
            with page.expect_response(route):
                retry.click()
            page.unroute_all(behavior="wait")
            with suppress(Error):  # the page may have read the part meanwhile: another view of it asked, too
                retry.click(timeout=3_000)
            expect(away).to_have_count(0)
        expect(page.get_by_role("group", name="Who receives text")).to_be_visible()
