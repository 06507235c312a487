"""The Chainlit example in its own environment; without ``.venv-chainlit``, which its docstring makes, it is skipped."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from tests.web.browser import chromium
from threadkeep_conformance.servers import free_port

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("CHAINLIT_ENVIRONMENT", ROOT / ".venv-chainlit")) / "bin" / "chainlit"
STARTED_SECONDS = 90

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PROGRAM.exists(), reason="Chainlit is not installed: see examples/chainlit/app.py"),
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium on this machine"),
]


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """The address of the example, with a user ana."""
    port = free_port()
    variables = {
        **os.environ,
        "CHAINLIT_AUTH_SECRET": "a" * 64,
        "CHAINLIT_USERS": "ana:a-long-password",
        "THREADKEEP_DATA_DIR": str(tmp_path),
        "EMBEDDINGS_PROVIDER": "none",
    }
    variables.pop("THREADKEEP_MODEL", None)
    command = [PROGRAM, "run", ROOT / "examples" / "chainlit" / "app.py", "--headless", "--port", str(port)]
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=log, stderr=log)
        address = f"http://localhost:{port}"
        try:
            for _ in range(STARTED_SECONDS):
                try:
                    httpx.get(address)
                    break
                except httpx.TransportError:
                    time.sleep(1)
            yield address
        finally:
            process.terminate()
            process.wait()


def test_a_user_signs_in_talks_and_sees_what_was_recalled(origin: str):
    """In a second conversation; the first one is in the list."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(30_000)
        page.goto(origin)
        page.locator("input[name=email]").fill("ana")
        page.locator("input[type=password]").fill("a-long-password")
        page.locator("button[type=submit]").click()
        page.locator("#chat-input").wait_for()
        for text in ("I live in Rome.", "Where do I live?"):
            page.goto(origin)
            page.locator("#chat-input").click()
            page.keyboard.type(text)
            page.keyboard.press("Enter")
            expect(page.locator(".ai-message, [data-step-type=assistant_message]").last).to_be_visible(timeout=60_000)
            page.wait_for_timeout(2_000)
        page.get_by_text("Recalled", exact=True).last.click()
        expect(page.get_by_text("- I live in Rome.").or_(page.get_by_text("I live in Rome. (")).last).to_be_visible()
        page.reload()
        expect(page.get_by_text("I live in Rome.", exact=True).first).to_be_visible()
        browser.close()
