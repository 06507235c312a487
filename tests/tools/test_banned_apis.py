"""The rules on environment, clock, output, excepts and purity."""

from __future__ import annotations

import textwrap

import pytest

from tools import banned_apis

ROOM = "src/threadkeep/recall/service.py"


def found_in(source: str, path: str = ROOM) -> list[str]:
    return [finding.message for finding in banned_apis.check(textwrap.dedent(source), path)]


class TestCheckEnvironment:
    @pytest.mark.parametrize(
        "source",
        [
            "import os\nos.environ['A']",
            "import os\nos.getenv('A')",
            "import os as system\nsystem.environ.get('A')",
            "from os import environ\nenviron['A']",
            "from os import getenv as read\nread('A')",
        ],
    )
    def test_a_read_in_a_room_is_found(self, source: str):
        """However the module or the name was imported."""
        assert any("settings.py" in message for message in found_in(source))

    def test_settings_may_read_it(self):
        """The one module that is allowed to."""
        assert not found_in("import os\nos.environ['A']", "src/threadkeep/settings.py")

    def test_other_uses_of_os_are_free(self):
        """Only the environment is banned."""
        assert not found_in("import os\nos.getpid()")


class TestCheckClock:
    @pytest.mark.parametrize(
        "source",
        [
            "import time\ntime.time()",
            "from time import time\ntime()",
            "import datetime\ndatetime.datetime.now()",
            "import datetime as dt\ndt.datetime.now(dt.UTC)",
            "from datetime import UTC, datetime\ndatetime.now(UTC)",
            "from datetime import datetime\nmake = datetime.utcnow",
            "from datetime import date\ndate.today()",
        ],
    )
    def test_a_read_in_a_room_is_found(self, source: str):
        """A reference counts like a call, because it can be called later."""
        assert any("clock.py" in message for message in found_in(source))

    @pytest.mark.parametrize("source", ["import time\ntime.monotonic()", "self.clock.now()", "today = 1\ntoday"])
    def test_what_measures_or_was_given_is_free(self, source: str):
        """A clock that was passed in is what the rule wants."""
        assert not found_in(source)

    def test_the_clock_may_read_it(self):
        """The one module that is allowed to."""
        assert not found_in("from datetime import datetime\ndatetime.now()", "src/threadkeep/clock.py")


class TestCheckPrint:
    def test_print_in_a_room_is_found(self):
        """Output belongs to the command line."""
        assert any("print" in message for message in found_in("print('hello')"))

    def test_the_command_line_may_print(self):
        """It is what shows things."""
        assert not found_in("print('hello')", "src/threadkeep/cli/main.py")


class TestCheckExcepts:
    @pytest.mark.parametrize(
        "caught", ["except:", "except BaseException:", "except BaseException as e:", "except (OSError, BaseException):"]
    )
    def test_a_handler_that_swallows_everything_is_found(self, caught: str):
        """Ctrl-C and cancellation would be lost in it."""
        assert any("Ctrl-C" in message for message in found_in(f"try:\n    go()\n{caught}\n    log()"))

    def test_a_handler_that_raises_again_is_free(self):
        """Cleaning up on the way out is what it is for."""
        assert not found_in("try:\n    go()\nexcept BaseException:\n    undo()\n    raise")

    def test_a_named_error_is_free(self):
        """A handler that knows what it catches."""
        assert not found_in("try:\n    go()\nexcept OSError:\n    pass")


class TestCheckPure:
    @pytest.mark.parametrize("source", ["async def rank(): ...", "async def f():\n    await g()"])
    def test_awaiting_in_a_pure_module_is_found(self, source: str):
        """A rule that awaits cannot be tested as a value."""
        assert any("pure" in message for message in found_in(source, "src/threadkeep/search/scoring.py"))

    def test_a_service_may_await(self):
        """It is where the waiting happens."""
        assert not found_in("async def recall(): ...")


class TestCheckTree:
    @pytest.mark.slow
    def test_this_repository_keeps_the_rules(self):
        """What is planted above is nowhere in the package."""
        assert banned_apis.check_tree() == []
