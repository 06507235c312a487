"""Tests of what makes loading quick: the collector is paused, and always runs again."""

from __future__ import annotations

import gc

import pytest

from threadkeep.search.loading import without_collector


class TestWithoutCollector:
    def test_it_runs_again_after_the_last(self):
        """Loads overlap; the first pauses it and the last lets it go on."""
        with without_collector():
            with without_collector():
                assert not gc.isenabled()
            assert not gc.isenabled()

        assert gc.isenabled()

    def test_it_runs_again_after_a_failure(self):
        """A load that raises leaves nothing paused."""
        with pytest.raises(RuntimeError), without_collector():
            raise RuntimeError

        assert gc.isenabled()

    def test_who_runs_without_it_keeps_it_off(self):
        """An application that has switched it off finds it off."""
        gc.disable()
        try:
            with without_collector():
                pass

            assert not gc.isenabled()
        finally:
            gc.enable()
