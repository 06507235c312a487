"""The types of the page's client are those of the gateway's OpenAPI."""

from __future__ import annotations

import pytest

from tools import web


@pytest.mark.usefixtures("assets")
def test_the_types_of_the_client_are_current():
    assert web.api_types() == web.SCHEMA.read_text("utf-8"), "run: make web-api"
