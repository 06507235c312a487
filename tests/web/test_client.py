"""The sources of the page: its types of the API, which are those of the gateway's OpenAPI, and its pure functions."""

from __future__ import annotations

import pytest

from tools import web


@pytest.mark.usefixtures("assets")
def test_the_types_of_the_client_are_current():
    assert web.api_types() == web.SCHEMA.read_text("utf-8"), "run: make web-api"


@pytest.mark.usefixtures("assets")
def test_the_pure_parts_of_the_page_are_right():
    """Properties of the event reducer and other pure functions; the build of the page has checked the types."""
    web.npm("run", "--silent", "test")
