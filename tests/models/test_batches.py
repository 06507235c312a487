"""Who waits for which batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.embedding import Batches

SECONDS = 10
LONG = "word " * 100


class Engine:
    """Stands for the model: a text's vector is its length. The first batch may be held until it is released."""

    def __init__(self, *, held: bool = False) -> None:
        self.loads = 0
        self.batches: list[list[str]] = []
        self.running = threading.Event()
        self.released = threading.Event()
        if not held:
            self.released.set()

    def load(self):
        self.loads += 1
        return self.encode

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        self.running.set()
        assert self.released.wait(SECONDS)
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def lengths(vectors: Sequence[NDArray[np.float32]]) -> list[int]:
    return [int(vector[0]) for vector in vectors]


class TestSubmit:
    @given(st.lists(st.text(max_size=2_000), max_size=40))
    def test_vectors_come_in_the_order_of_their_texts(self, texts: list[str]):
        """However they were sorted into batches."""
        vectors = Batches(Engine().load).submit(texts).result(SECONDS)

        assert lengths(vectors) == [len(text) for text in texts]

    def test_the_model_is_loaded_once(self):
        """However many ask for it at the same time."""
        engine = Engine()
        batches = Batches(engine.load)

        waiting = [batches.submit(()) for _ in range(20)] + [batches.submit(["a"])]
        for each in waiting:
            each.result(SECONDS)

        assert engine.loads == 1

    def test_who_comes_while_a_batch_runs_shares_the_next_one(self):
        """Three single questions make one batch of three."""
        engine = Engine(held=True)
        batches = Batches(engine.load)

        waiting = [batches.submit(["first"])]
        assert engine.running.wait(SECONDS)
        waiting += [batches.submit([text]) for text in ("b", "cc", "ddd")]
        engine.released.set()

        assert [lengths(each.result(SECONDS)) for each in waiting] == [[5], [1], [2], [3]]
        assert [sorted(batch) for batch in engine.batches] == [["first"], ["b", "cc", "ddd"]]

    def test_a_hundred_turns_at_once_are_few_calls(self):
        """Turns of a conversation, each its own request: as many as fit go into one call of the model."""
        engine = Engine(held=True)
        batches = Batches(engine.load)
        turns = [f"Yesterday we had the meeting number {place} with the people of the harbour" for place in range(100)]

        waiting = [batches.submit(["first"])]
        assert engine.running.wait(SECONDS)
        waiting += [batches.submit([turn]) for turn in turns]
        engine.released.set()

        assert [lengths(each.result(SECONDS)) for each in waiting[1:]] == [[len(turn)] for turn in turns]
        assert len(engine.batches) <= 10

    def test_a_question_goes_before_documents(self):
        """It waits for the batch that runs, and is not computed together with the rest of them."""
        engine = Engine(held=True)
        batches = Batches(engine.load)

        documents = batches.submit([LONG] * 30)
        assert engine.running.wait(SECONDS)
        question = batches.submit(["who?"])
        engine.released.set()
        documents.result(SECONDS)
        question.result(SECONDS)

        assert engine.batches[1] == ["who?"]

    def test_abandoned_texts_are_not_embedded(self):
        """Cancelling drops all but the batch that runs."""
        engine = Engine(held=True)
        batches = Batches(engine.load)

        documents = batches.submit([LONG] * 30)
        assert engine.running.wait(SECONDS)
        documents.cancel()
        engine.released.set()
        batches.submit(["last"]).result(SECONDS)

        assert engine.batches[1:] == [["last"]]

    def test_a_load_that_failed_is_tried_again(self):
        """The first who asked gets the error, the next one the vectors."""
        engine, failures = Engine(), [EmbedderUnavailableError("not built yet")]

        def load():
            if failures:
                raise failures.pop()
            return engine.load()

        batches = Batches(load)

        with pytest.raises(EmbedderUnavailableError, match="not built yet"):
            batches.submit(["a"]).result(SECONDS)
        assert lengths(batches.submit(["ab"]).result(SECONDS)) == [2]

    def test_a_defect_reaches_who_waits(self):
        """Nobody waits for ever."""

        def encode(_texts: Sequence[str]) -> NDArray[np.float32]:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            Batches(lambda: encode).submit(["a"]).result(SECONDS)
