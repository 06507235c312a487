"""Every backend against the suite that is shipped for it."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("threadkeep.testing.storage_contract")
