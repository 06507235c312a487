"""What ``python -m tests.pregel`` says of two runs."""

from __future__ import annotations

from tests.pregel.__main__ import KNOWN, Outcome

STOCK = {"a::t[memory-True]": "a::t[True]", "a::t[memory-False]": "a::t[False]"}
OURS = {f"a::t[{kind}-{value}]": f"a::t[{value}]" for kind in ("sqlite", "postgres") for value in (True, False)}


def test_a_failure_of_stock_excuses_the_same_parameters_only():
    """With any checkpointer of ours."""
    stock = Outcome("FAILED a::t[memory-True] - assert 1 == 2\n1 failed, 1 passed in 2s", STOCK)
    ours = Outcome(
        "FAILED a::t[sqlite-True] - assert 1 == 2\n"
        "FAILED a::t[sqlite-False] - assert 1 == 2\n"
        "ERROR a::t[postgres-True]\n3 failed, 1 passed in 2s",
        OURS,
    )

    assert ours.unlike(stock) == ["a::t[sqlite-False]"]
    assert (stock.summary, ours.summary) == ("1 passed, 1 failed", "1 passed, 3 failed")


def test_a_known_reason_is_one():
    """It is that of a test, whatever its parameters are."""
    test = f"{next(iter(KNOWN))}[sqlite]"

    assert Outcome(f"FAILED {test} - no", {test: test}).unlike(Outcome("", {})) == []
