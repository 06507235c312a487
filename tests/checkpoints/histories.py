"""Histories as they come: whole ones, and those that crashes, interrupts and rewrites leave behind."""

from __future__ import annotations

import random
from collections.abc import Sequence

from threadkeep.langgraph.window_rules import AnswerStep, KeepStep, Step, Strip, WindowEntry


def whole_history(rng: random.Random) -> list[WindowEntry]:
    """Return turns of a user, with calls that are each followed by their results, ids used again now and then."""
    entries = [WindowEntry("system", rng.randint(0, 40)) for _ in range(rng.choice((0, 0, 1, 2)))]
    for turn in range(rng.randint(1, 8)):
        entries.append(WindowEntry("user", rng.randint(1, 200)))
        for step in range(rng.choice((0, 0, 1, 1, 2, 3))):
            again = rng.random() < 0.3
            calls = tuple(f"call-{i}" if again else f"call-{turn}-{step}-{i}" for i in range(rng.randint(1, 4)))
            entries.append(WindowEntry("assistant", rng.randint(1, 100), calls))
            results = list(calls)
            rng.shuffle(results)
            entries += [WindowEntry("tool", rng.randint(1, 400), (), (call,)) for call in results]
        if rng.random() < 0.9:
            entries.append(WindowEntry("assistant", rng.randint(1, 200)))
    return entries


def broken_history(rng: random.Random) -> list[WindowEntry]:
    """Return a history in which entries were lost, doubled, moved, or carry calls that nothing can answer."""
    entries = whole_history(rng)
    for _ in range(rng.randint(0, 5)):
        if not entries:
            break
        i = rng.randrange(len(entries))
        match rng.randrange(5):
            case 0:
                del entries[i]
            case 1:
                entries.insert(rng.randrange(len(entries) + 1), entries[i])
            case 2:
                entries.insert(rng.randrange(len(entries)), entries.pop(i))
            case 3:
                entries[i] = WindowEntry("assistant", 10, ("", "twice", "twice", f"lost-{i}"))
            case _:
                entries.insert(i, WindowEntry("tool", 5, (), (f"stray-{rng.randrange(3)}",)))
    return entries


def result_of(entries: Sequence[WindowEntry], steps: Sequence[Step]) -> list[WindowEntry]:
    """Return the entries that *steps* lead to."""
    found: list[WindowEntry] = []
    for step in steps:
        match step:
            case AnswerStep(_, call_id):
                found.append(WindowEntry("tool", 20, (), (call_id,)))
            case Strip(i):
                calls = entries[i].calls
                usable = tuple(call for call in calls if call and calls.count(call) == 1)
                found.append(WindowEntry(entries[i].role, entries[i].tokens, usable))
            case KeepStep(i):
                found.append(entries[i])
    return found


def is_valid(entries: Sequence[WindowEntry]) -> bool:
    """Whether a provider would take it: after a message with calls come their results, all of them, and no others."""
    i = 0
    while i < len(entries):
        entry = entries[i]
        i += 1
        if entry.answers:
            return False
        waiting = list(entry.calls)
        while waiting:
            if i == len(entries) or not entries[i].answers or not set(entries[i].answers) <= set(waiting):
                return False
            waiting = [call for call in waiting if call not in entries[i].answers]
            i += 1
    return True
