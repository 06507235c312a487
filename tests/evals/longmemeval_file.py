"""A small file in LongMemEval's own format: sessions out of order, unmarked turns, a question about nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TALK: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "answer_1": (
        "2023/05/20 (Sat) 02:21",
        [
            {"role": "user", "content": "I adopted a greyhound called Biscuit.", "has_answer": True},
            {"role": "assistant", "content": "Greyhounds sleep a lot."},
        ],
    ),
    "noise_1": (
        "2023/05/02 (Tue) 23:05",
        [
            {"role": "user", "content": "Which bread keeps longest?"},
            {"role": "assistant", "content": "Rye bread does."},
            {"role": "user", "content": "  "},
        ],
    ),
    "noise_2": (
        "2023/06/01 (Thu) 10:00",
        [{"role": "user", "content": "My orchid in the greenhouse bloomed."}],
    ),
}


def instance(number: int, **changes: Any) -> dict[str, Any]:
    """Return one question with a history of its own."""
    return {
        "question_id": f"q{number}",
        "question_type": "single-session-user",
        "question": "What is my greyhound called?",
        "answer": "Biscuit",
        "question_date": "2023/06/10 (Sat) 10:00",
        "haystack_session_ids": list(TALK),
        "haystack_dates": [date for date, _ in TALK.values()],
        "haystack_sessions": [said for _, said in TALK.values()],
        "answer_session_ids": ["answer_1"],
        **changes,
    }


def write_longmemeval(folder: Path) -> Path:
    """Write a file of three questions: one marked, one whose turns are not marked, one about what was never said."""
    unmarked = [[{**turn, "has_answer": False} for turn in said] for _, said in TALK.values()]
    rows = [
        instance(1),
        instance(2, question_type="multi-session", haystack_sessions=unmarked),
        instance(3, question_id="q3_abs"),
    ]
    path = folder / "longmemeval_mini.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path
