"""The page of an installed wheel, on one's own machine: no sign-in, and nothing that it reports as an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.gateway import test_wheel
from tests.gateway.test_serve import served
from tests.web.conftest import PATIENCE_MILLISECONDS
from tests.web.pages import say

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_user_talks_and_sees_what_is_remembered(browser: Browser, package: Path, tmp_path: Path):
    (tmp_path / "wheel_module.py").write_text(test_wheel.GRAPH.format(package=str(package)))
    with served(tmp_path, "--graph", "wheel_module:graph", package=package) as server:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.origin)
        page.get_by_label("Message", exact=True).wait_for()
        say(page, "I live in Rome.")
        expect(page.locator(".reply")).to_contain_text("Noted.")
        expect(page.get_by_text("learnt 1")).to_be_visible()
        page.close()

    assert problems == []
