"""What the workers of a test run import: only the process that they fork from imports this module."""

from __future__ import annotations

import contextlib
import gc
import json
import os
from pathlib import Path

import pytest

arguments = json.loads(os.environ.pop("TESTS_TO_IMPORT"))  # an import of tests.conftest would come before pytest's
with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
    pytest.main(["--collect-only", "-p", "no:cacheprovider", "-p", "no:rerunfailures", *arguments])
gc.collect()
gc.freeze()
