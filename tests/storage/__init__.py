"""The pure rules of storage, and what only one backend promises."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("threadkeep.testing.storage_contract")
