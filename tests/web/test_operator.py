"""The view of an administrator: the service, turns that failed, and an owner by label."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.dead_turns import add_dead_turn
from tests.gateway.oidc import OidcProvider
from tests.web.conftest import OpenSite
from tests.web.pages import say
from threadkeep.testing import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STAFF = {"group_scopes": {"staff": ["admin"]}}


def open_operator(page: Page) -> None:
    """Open the view, which the profile menu leads to."""
    page.get_by_role("button", name="Profile of").click()
    page.get_by_role("menuitem", name="Operator").click()
    page.get_by_role("heading", name="Operator").wait_for()


class TestOperator:
    def test_service_turns_and_owners(self, open_site: OpenSite, provider: OidcProvider, tmp_path: Path):
        """A dead turn is retried and learnt from; an owner is suspended, restored and erased, with a reason."""
        provider.groups["root"] = ["staff"]
        site = open_site(ScriptedModel(replies=("Noted.",)), **STAFF)
        ana = site.owner("ana")
        add_dead_turn(f"sqlite:///{tmp_path / 'memory.db'}", ana, "I live in Quito.", "th")
        page = site.open("root")
        say(page, "Hello")
        open_operator(page)
        parts = page.get_by_role("group", name="Parts of the service").get_by_role("row")
        expect(parts.filter(has_text="sqlite")).to_contain_text("answers")
        expect(parts.filter(has_text="Sign-in")).to_contain_text(provider.origin)
        expect(page.get_by_role("img", name="Chart: Cause")).to_contain_text("Embedder")
        page.get_by_text("As a table").nth(1).click()
        expect(page.get_by_role("group", name="Outcome").get_by_role("row", name="Done")).to_contain_text("1")
        expect(page.get_by_role("img", name="Chart: rows").locator("rect")).to_have_count(1)

        turn = page.get_by_role("group", name="Turns not learnt from").get_by_role("row").filter(has_text="ana")
        expect(turn).to_contain_text("RuntimeError")
        turn.get_by_role("button", name="Retry").click()
        expect(page.locator(".toast")).to_contain_text("1 turn is tried again")
        expect(turn).to_be_hidden(timeout=20_000)

        page.get_by_label("User id or label").fill("ana")
        page.get_by_role("button", name="Find").first.click()
        expect(page.get_by_role("heading", name="ana")).to_contain_text("active")
        expect(page.get_by_text(ana.label)).to_be_visible()
        _act(page, "Suspend", "Left the company.")
        expect(page.get_by_role("heading", name="ana")).to_contain_text("suspended")
        audit = page.get_by_role("group", name="Audit")
        expect(audit).to_contain_text("Left the company.")
        page.get_by_label("Search the audit").fill("left COMPANY")
        page.keyboard.press("Enter")
        expect(audit.get_by_role("row")).to_have_count(2)
        _act(page, "End the suspension", "Came back.")
        expect(page.get_by_role("heading", name="ana")).to_contain_text("active")
        _act(page, "Erase", "Asked for it.")
        expect(page.get_by_role("dialog")).to_contain_text("Receipt")
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        assert "Quito" not in page.content()
        assert site.gateway.tk.sync.memories.list(owner=ana) == []
        reasons = [entry.why for entry in site.gateway.tk.sync.owners.audit(ana)]
        assert reasons == ["Asked for it."]
        assert site.problems == []

    def test_only_with_the_scope(self, open_site: OpenSite):
        """Without it neither the menu nor the address leads there, and nothing is asked for."""
        site = open_site(**STAFF)
        page = site.open()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("button", name="Profile of").click()
        expect(page.get_by_role("menuitem", name="Operator")).to_be_hidden()
        page.evaluate("location.hash = '#/operator'")
        expect(page.get_by_role("heading", name="Privacy")).to_be_visible()
        assert not [url for url in asked if "/api/admin" in url]


def _act(page: Page, action: str, reason: str) -> None:
    page.get_by_role("main").get_by_role("button", name=action, exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=action, exact=True).click()
