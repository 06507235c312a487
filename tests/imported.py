"""What the workers of a test run import: only the process that they fork from imports this module."""

from __future__ import annotations

import gc
import json
import os

import pytest

arguments = json.loads(os.environ.pop("TESTS_TO_IMPORT"))  # an import of tests.conftest would come before pytest's
# Modules keep the standard streams that they are imported with. A worker brings files of its own for them.
nowhere = os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 1)
os.close(nowhere)
pytest.main(["--collect-only", "--capture=no", "-p", "no:cacheprovider", "-p", "no:rerunfailures", *arguments])
gc.collect()
gc.freeze()
