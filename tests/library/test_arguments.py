"""Arguments at their edges."""

from __future__ import annotations

from typing import Any

import pytest

import threadkeep
from threadkeep.errors import InvalidInputError, SettingsError, TooLargeError
from threadkeep.testing import HashingEmbedder

SAID = [{"role": "user", "content": "I like tea."}]


class TestThreadId:
    """What names a thread."""

    @pytest.mark.parametrize("thread_id", [None, "", 5, "\ud800", "x" * 1000])
    def test_a_turn_of_any_thread_is_recorded(self, thread_id: Any) -> None:
        """None and nothing: outside of any; a number counts by its text."""
        with threadkeep.open("memory://", embedder="none") as tk:
            assert tk.sync.capture(SAID, owner="ana", thread_id=thread_id, wait=True).status == "done"

    def test_too_long_a_one_is_refused(self) -> None:
        """As the checkpointer refuses it."""
        with threadkeep.open("memory://", embedder="none") as tk, pytest.raises(TooLargeError):
            tk.sync.capture(SAID, owner="ana", thread_id="x" * 1001)


class TestWrongOnes:
    """What cannot be meant is one sentence."""

    @pytest.mark.parametrize("url", [5, "sqlite:///\0x", b"memory://"])
    def test_a_storage_that_is_no_url(self, url: Any) -> None:
        """Before anything is opened."""
        with pytest.raises(SettingsError, match="must be a string without NUL"):
            threadkeep.open(url)

    def test_a_question_that_is_none(self) -> None:
        """Neither a text nor messages."""
        with threadkeep.open("memory://", embedder="none") as tk:
            for question in (None, 5):
                with pytest.raises(InvalidInputError, match="question must be"):
                    tk.sync.recall(question, owner="ana")

    def test_options_that_there_are_not(self) -> None:
        """Named with what there is."""
        with threadkeep.open("memory://", embedder="none") as tk:
            with pytest.raises(InvalidInputError, match="ranking must be hybrid or dense"):
                tk.store_with(ranking="foo")  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError, match="budget_tokens must be 0 or more"):
                tk.middleware(budget_tokens=-1)


class TestBudget:
    """How much is recalled."""

    def test_nothing_fits_into_nothing(self) -> None:
        """Zero is zero, and not the default."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            tk.sync.memories.remember("I like tea.", owner="ana")

            assert tk.sync.recall("tea?", owner="ana", budget_tokens=0).text == ""


class TestSettings:
    """What is set by a program."""

    def test_a_field_is_not_taken_for_a_variable(self) -> None:
        """It would be ignored in silence: other variables than ours may be there, too."""
        with pytest.raises(SettingsError, match="lease_seconds; use"):
            threadkeep.Settings(lease_seconds=1)

        assert threadkeep.Settings.load(lease_seconds=1).lease_seconds == 1
