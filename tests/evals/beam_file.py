"""A small file in the form of BEAM's chats."""

from __future__ import annotations

import json
from pathlib import Path

SAID = [
    ("user", "March-15-2024", "I'm Ana, and I plan to plant forty cherry trees on the slope."),
    ("assistant", None, "A slope drains well, which most fruit likes. Shall we plan the holes?"),
    ("user", None, "Yes. The delivery from the nursery is due on 2 April."),
    ("assistant", None, "Then the holes must be dug in March."),
    ("user", "May-02-2024", "Frost killed nine, so thirty-one cherry trees are left."),
    ("assistant", None, "I am sorry. " + "Here is what to do against frost. " * 300),
]
ASKED = [
    ("information_extraction", "When is the delivery from the nursery due?", [2]),
    ("information_extraction", "When must the holes be dug?", [3]),
    ("knowledge_update", "How many cherry trees do I have?", [0, 4]),
    ("abstention", "What is the name of my dog?", []),
]


def write_beam(folder: Path) -> Path:
    """Write a file of one chat and return its path."""
    messages = [
        {"id": number, "role": role, "batch": 1 + (number > 3), "turn": number // 2, "time": time, "text": text}
        for number, (role, time, text) in enumerate(SAID)
    ]
    questions = [
        {"qid": f"q{number}", "type": kind, "q": text, "ev": evidence}
        for number, (kind, text, evidence) in enumerate(ASKED)
    ]
    path = folder / "mini_beam.json"
    path.write_text(json.dumps([{"cid": "chat", "msgs": messages, "qs": questions}]), encoding="utf-8")
    return path
