"""Arguments at their edges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage

import threadkeep
from threadkeep.errors import InvalidInputError, SettingsError, TooLargeError
from threadkeep.memories.models import NewMemory
from threadkeep.testing import HashingEmbedder

SAID = [{"role": "user", "content": "I like tea."}]
A_LIST = "must be a list of"
OF_ANOTHER_TYPE: list[tuple[Callable[[Any], object], str]] = [
    (lambda tk: tk.sync.memories.list(limit="5"), "limit must be a whole number, got str."),
    (lambda tk: tk.sync.memories.list(offset=None), "offset must be a whole number, got NoneType."),
    (lambda tk: tk.sync.memories.search("tea", limit=None), "limit must be a whole number, got NoneType."),
    (lambda tk: tk.sync.memories.undo("2"), "last must be a whole number, got str."),
    (lambda tk: tk.sync.memories.reflect(older_than=30), "older_than must be a timedelta, got int"),
    (lambda tk: tk.sync.memories.reflect(older_than=timedelta.max), "older_than must be 0 or more"),
    (lambda tk: tk.sync.memories.remember("I like tea.", valid_from="2026-01-01"), "valid_from must be a datetime"),
    (lambda tk: tk.sync.memories.remember("I like tea.", source="user"), "source must be a Source object, got str."),
    (lambda tk: tk.sync.memories.remember_many(["I like tea."]), f"news {A_LIST} NewMemory objects, got str."),
    (lambda tk: tk.sync.memories.remember_many([None]), f"news {A_LIST} NewMemory objects, got NoneType."),
    (lambda tk: tk.sync.memories.import_lines([{"text": "I like tea."}]), f"lines {A_LIST} strings, got dict."),
    (lambda tk: tk.sync.memories.get_many("5f0c"), f"memory_ids {A_LIST} strings, got str."),
    (lambda tk: tk.sync.memories.forget(None), "memory_id must be a string, got NoneType."),
    (lambda tk: tk.sync.proposals.list(limit="5"), "limit must be a whole number, got str."),
    (lambda tk: tk.sync.proposals.list(state="open"), "state must be one of pending"),
    (lambda tk: tk.sync.proposals.decide(["5f0c"]), f"choices {A_LIST} Choice objects, got str."),
    (lambda tk: tk.sync.proposals.set_policy({"tool": "never"}), "rules must be a string, got dict."),
    (lambda tk: tk.sync.proposals.propose("I like tea.", source="user"), "source must be a Source object, got str."),
    (lambda tk: tk.sync.queue.retry("5f0c"), f"turn_ids {A_LIST} strings, got str."),
    (lambda tk: tk.sync.owners.audit(limit="5"), "limit must be a whole number, got str."),
    (lambda tk: tk.sync.owners.opt_out(thread_id=""), "The thread id is empty"),
    (lambda tk: tk.sync.threads.list(older_than=30), "older_than must be a timedelta, got int"),
    (lambda tk: tk.sync.threads.list(title=5), "title must be a string, got int."),
    (lambda tk: tk.sync.threads.delete("1"), f"thread_ids {A_LIST} strings, got str."),
    (lambda tk: tk.sync.threads.delete(older_than=30), "older_than must be a timedelta, got int"),
    (lambda tk: tk.sync.threads.prune("1"), f"thread_ids {A_LIST} strings, got str."),
    (lambda tk: tk.sync.threads.prune(since="2026-01-01"), "since must be a datetime with a time zone"),
    (lambda tk: tk.sync.threads.adopt(thread_ids="1", owners={"1": "ana"}), f"thread_ids {A_LIST} strings, got str."),
    (lambda tk: tk.sync.threads.update("1", title=5), "title must be a string, got int."),
    (lambda tk: tk.sync.threads.update("1", metadata=["a"]), "metadata must be a mapping"),
    (lambda tk: tk.sync.threads.note_turn("1", question="Tea?", status="done"), "status must be one of idle"),
    (lambda tk: tk.sync.recall("Tea?", budget_tokens="300"), "budget_tokens must be a whole number, got str."),
    (lambda tk: tk.config(user_id="ana", thread_id="1", memory="off"), "memory must be True or False, got str."),
    (lambda tk: tk.per_run_owner().config("ana", thread_id="1", memory=None), "memory must be True or False"),
    (lambda tk: tk.middleware(experience="ops"), "Experience is of an agent"),
    (lambda tk: tk.middleware(events=None), "events must be ids or full"),
    (lambda tk: tk.window(max_tokens="1000"), "max_tokens must be a whole number, got str."),
    (lambda tk: tk.attachment(b"%PDF", name="a.pdf"), "text must be a string, got bytes."),
    (lambda tk: tk.sync.import_conversations(None), "path must be a string or a Path, got NoneType."),
]


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


class TestMessages:
    """What is given as the messages of a turn."""

    @pytest.mark.parametrize(
        "said",
        [
            "I like green tea.",
            {"role": "user", "content": "I like green tea."},
            HumanMessage("I like green tea."),
            ["I like green tea."],
        ],
    )
    def test_a_message_alone_is_one_message(self, said: Any) -> None:
        """A text is no list of letters, and a dict no list of its keys."""
        with threadkeep.open("memory://", embedder="none") as tk:
            tk.sync.capture(said, owner="ana", thread_id="1", wait=True)

            assert {memory.text for memory in tk.sync.memories.list(owner="ana")} == {
                "I like green tea.",
                "Said: I like green tea.",
            }

    def test_a_pair_alone_has_a_role(self) -> None:
        """What an assistant said is not the user's."""
        said: Any = ("assistant", "I like green tea.")
        with threadkeep.open("memory://", embedder="none") as tk:
            tk.sync.capture(said, owner="ana", thread_id="1", wait=True)

            assert tk.sync.memories.list(owner="ana") == []

    @pytest.mark.parametrize("said", [None, 5])
    def test_what_is_no_message_is_refused(self, said: Any) -> None:
        """With what it should be."""
        with (
            threadkeep.open("memory://", embedder="none") as tk,
            pytest.raises(InvalidInputError, match="messages must be a list of messages, got"),
        ):
            tk.sync.capture(said, owner="ana", thread_id="1")


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

    @pytest.mark.parametrize("text", [None, 5])
    def test_a_statement_that_is_no_text(self, text: Any) -> None:
        """It is refused with what it should be."""
        with (
            threadkeep.open("memory://", embedder="none") as tk,
            pytest.raises(InvalidInputError, match="text must be a string, got"),
        ):
            tk.sync.memories.remember(text, owner="ana")

    def test_a_timeout_that_is_a_number(self) -> None:
        """It is refused at once: a turn would go on without memory."""
        number: Any = 2
        with threadkeep.open("memory://", embedder="none") as tk:
            for call in (
                lambda: tk.middleware(timeout=number),
                lambda: tk.sync.recall("tea?", owner="ana", timeout=number),
                lambda: tk.sync.drain(timeout=number),
                lambda: tk.sync.settle([], owner="ana", timeout=number),
            ):
                with pytest.raises(InvalidInputError, match=r"timeout must be a timedelta, got int"):
                    call()

    @pytest.mark.parametrize("since", ["yesterday", datetime(2025, 1, 1)])  # noqa: DTZ001 - without a time zone
    def test_a_time_without_a_time_zone(self, since: Any) -> None:
        """A filter that cannot be compared is refused, also while nothing is remembered."""
        with threadkeep.open("memory://", embedder="none") as tk:
            for call in (tk.sync.memories.list, partial(tk.sync.memories.search, "tea")):
                with pytest.raises(InvalidInputError, match="since must be a datetime with a time zone"):
                    call(owner="ana", since=since)

    @pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
    def test_a_time_that_has_no_year_in_utc(self, moment: str) -> None:
        """It is refused instead of left out: what is kept has its times in UTC."""
        at = datetime.fromisoformat(moment)
        with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
            for call in (
                lambda: tk.sync.memories.remember("I move to Oslo.", valid_from=at),
                lambda: tk.sync.memories.remember_many([NewMemory("I move to Oslo.", valid_to=at)]),
                lambda: tk.sync.memories.list(since=at),
            ):
                with pytest.raises(InvalidInputError, match="must be in the years 1 to 9999 in UTC"):
                    call()

            assert tk.sync.memories.list() == []

    @pytest.mark.parametrize(("call", "message"), OF_ANOTHER_TYPE)
    def test_a_value_of_another_type(self, call: Callable[[Any], object], message: str) -> None:
        """One sentence names the argument, and what it takes."""
        with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
            tk.sync.threads.create("1")

            with pytest.raises(InvalidInputError) as refused:
                call(tk)

            assert str(refused.value).startswith(message)

    def test_receipts_are_named_by_a_text_too(self, tmp_path: Path) -> None:
        """As paths of files are elsewhere."""
        file = tmp_path / "receipts.jsonl"
        file.write_text("")
        with threadkeep.open("memory://", embedder="none") as tk:
            assert tk.sync.owners.replay_erasures(str(file)) == tk.sync.owners.replay_erasures(file)

    def test_a_cursor_of_no_page(self) -> None:
        """The message names what the caller passes."""
        with (
            threadkeep.open("memory://", embedder="none") as tk,
            pytest.raises(InvalidInputError, match="cursor of the page is invalid"),
        ):
            tk.sync.threads.list("ana", cursor="junk")

    def test_options_that_there_are_not(self) -> None:
        """Named with what there is."""
        with threadkeep.open("memory://", embedder="none") as tk:
            with pytest.raises(InvalidInputError, match="ranking must be hybrid or dense"):
                tk.store_with(ranking="foo")  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError, match="budget_tokens must be 0 or more"):
                tk.middleware(budget_tokens=-1)

    @pytest.mark.parametrize("distance", ["l2", "inner_product"])
    def test_a_distance_that_there_is_not(self, distance: Any) -> None:
        """Scores are cosines; another distance is refused, and the cosine is not."""
        embedder = HashingEmbedder(dims=64)
        with threadkeep.open("memory://", embedder=embedder) as tk:
            index: Any = {"dims": 64, "embed": embedder, "distance_type": distance}
            with pytest.raises(InvalidInputError, match=f"distance_type.*{distance}.*cosine"):
                tk.store_with(index=index)
            tk.store_with(index={**index, "distance_type": "cosine"})

    def test_an_embedder_that_is_not_the_memorys(self) -> None:
        """Vectors come from one embedder; an index with another one is refused."""
        langchain = DeterministicFakeEmbedding(size=64)
        for embedder, embed in (
            (HashingEmbedder(dims=64), langchain),
            ("none", langchain),
            (langchain, DeterministicFakeEmbedding(size=32)),
            (langchain, "openai:text-embedding-3-small"),
        ):
            with threadkeep.open("memory://", embedder=embedder) as tk:
                with pytest.raises(InvalidInputError, match=r"index\['embed'\].*threadkeep.open\(embedder="):
                    tk.store_with(index={"dims": 64, "embed": embed})
                tk.store_with(index={"fields": ["text"]})  # type: ignore[typeddict-item]
        with threadkeep.open("memory://", embedder=langchain) as tk:
            tk.store_with(index={"dims": 64, "embed": langchain})

    def test_dimensions_that_are_not_the_embedders(self) -> None:
        """They are refused where the embedder's are known."""
        embedder = HashingEmbedder(dims=64)
        with (
            threadkeep.open("memory://", embedder=embedder) as tk,
            pytest.raises(InvalidInputError, match=r"index\['dims'\] is 32, and the embedder .* gives 64"),
        ):
            tk.store_with(index={"dims": 32, "embed": embedder})  # type: ignore[typeddict-item]


class TestOtherForms:
    """What is not of the declared type, and is clear."""

    def test_an_iterator_is_a_list(self) -> None:
        """It is read once: what was checked is what is kept, found and deleted."""
        with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
            news: Any = (NewMemory(f"I like tea number {number}.") for number in range(3))
            kept = tk.sync.memories.remember_many(news)
            ids: Any = (result.memory.memory_id for result in kept if result.memory)
            for name in ("1", "2"):
                tk.sync.threads.create(name)
            names: Any = iter(["1", "2"])

            assert len(tk.sync.memories.get_many(ids)) == 3
            assert tk.sync.threads.delete(names) == ["1", "2"]
            assert not tk.sync.threads.list()

    def test_a_number_of_numpy_is_a_number(self) -> None:
        """As everywhere in Python where things are counted."""
        two: Any = np.int64(2)
        with threadkeep.open("memory://", owner="ana", embedder="none") as tk:
            tk.sync.memories.remember_many([NewMemory(f"I like tea number {number}.") for number in range(3)])

            assert len(tk.sync.memories.list(limit=two)) == 2
            assert len(tk.sync.memories.list(offset=two)) == 1
            assert len(tk.sync.memories.search("tea", limit=two)) == 2
            assert tk.sync.proposals.list(limit=two) == []
            assert tk.middleware(budget_tokens=two)


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
