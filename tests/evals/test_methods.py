from __future__ import annotations

from datetime import UTC, datetime

from tests.evals.embedding import WordsEmbedder
from threadkeep_evals.locomo import Turn
from threadkeep_evals.methods import RecordingEmbedder, memory_of_turn


class Counting(WordsEmbedder):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def embed(self, texts):
        self.seen += texts
        return await super().embed(texts)


class TestRecord:
    async def test_embeds_only_what_is_new(self):
        """Vectors that were made already are given again, in the order asked."""
        counting = Counting()
        recording = RecordingEmbedder(counting)
        first = await recording.embed(["apple", "pear"])

        kept = await recording.embed(["pear", "plum", "apple"])

        assert counting.seen == ["apple", "pear", "plum"]
        assert kept[[2, 0]].tolist() == first.tolist()

    async def test_a_question_costs_what_it_cost_first(self):
        """Whoever asks second is told the time of the first, so that a cache favours nobody."""
        counting = Counting()
        recording = RecordingEmbedder(counting)
        await recording.embed(["Where is the plum?", "where is it?"])

        vector, milliseconds = await recording.question("Where is the plum?")

        assert counting.seen == ["Where is the plum?", "where is it?"]
        assert vector.shape == (64,)
        assert milliseconds > 0
        assert (await recording.question("Where is the plum?"))[1] == milliseconds


class TestSpell:
    def test_a_turn_keeps_its_provenance(self):
        """Session, turn id, date and order go with the memory, speaker and caption with its text."""
        at = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

        new = memory_of_turn(Turn("D8:6", 8, 40, "Ana", "Look!", "a photo of a vase", at))

        assert new.text == "Ana: Look! [a photo of a vase]"
        assert (new.kind, new.memory_id, new.created_at) == ("episodic", "D8:6", at)
        (source,) = new.sources
        assert (source.speaker, source.thread_id, source.message_id, source.at) == ("user", "session-8", "D8:6", at)
