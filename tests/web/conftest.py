"""The built web page; without Node's packages the tests are skipped, visibly, and fail in continuous integration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.gateway.conftest import gateway, open_gateway, provider  # noqa: F401 - fixtures
from tools import web


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of the built page."""
    try:
        return web.build()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"The web page cannot be built: {error}")
