from __future__ import annotations

from threadkeep_evals.tombstones import run_tombstones


class TestRun:
    def test_misses_and_false_blocks_are_counted_for_both_causes(self):
        """By words alone, what the rules were written for is nearly all found, and nothing else is."""
        report = run_tombstones(embedder="none")

        rows = {(row["cases"], row["cause"]): row for row in report["results"]}
        assert rows["known", "rejected"]["missed"] <= 2
        assert rows["known", "rejected"]["false_blocks"] == 0
        assert rows["known", "erased"]["missed"] <= 3
        assert rows["known", "erased"]["false_blocks"] == 0
        for cause in ("rejected", "erased"):
            assert rows["unseen", cause]["miss_rate"] <= 0.2
            assert rows["unseen", cause]["false_block_rate"] <= 0.05
            low, high = rows["unseen", cause]["interval95"]["miss_rate"]
            assert low < rows["unseen", cause]["miss_rate"] < high
