"""Typer's runner of commands, which builds the commands of an application once, and not for each that it runs."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import patch

from typer import testing
from typer.main import get_command
from typer.testing import Result
from typing_extensions import override

__all__ = ["CliRunner", "Result"]

built_command = cache(get_command)


class CliRunner(testing.CliRunner):
    @override
    def invoke(self, *args: Any, **options: Any) -> Result:
        with patch.object(testing, "_get_command", built_command):
            return super().invoke(*args, **options)
