"""A small file in LoCoMo's own format, malformed evidence included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SAID = {
    1: [
        ("Ana", "I adopted a puppy called Biscuit last week.", None),
        ("Ben", "How lovely! My cousin breeds greyhounds near Porto.", None),
        ("Ana", "We hike every Sunday in the cork forest.", "a photo of a dog on a trail"),
    ],
    2: [
        ("Ben", "I started a pottery class with Marta on Thursdays.", None),
        ("Ana", "I was promoted to head gardener at the museum.", None),
        ("Ben", "Congratulations! Here is my first vase.", "a photo of a blue vase on a shelf"),
    ],
    11: [
        ("Ana", "The orchid in the greenhouse finally bloomed.", None),
        ("Ben", "My flight to Oslo was cancelled because of snow.", None),
    ],
}


def sample(conversation_id: str = "conv-1") -> dict[str, Any]:
    """Return one conversation of three sessions with ten questions, of which two have no usable evidence."""
    talk: dict[str, Any] = {"speaker_a": "Ana", "speaker_b": "Ben", "session_30_date_time": "1:00 pm on 1 May, 2024"}
    for number, turns in SAID.items():
        talk[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        talk[f"session_{number}"] = [
            {
                "speaker": speaker,
                "dia_id": f"D{number}:{place}",
                "text": words,
                **({"img_url": ["x"], "blip_caption": caption, "query": "q"} if caption else {}),
            }
            for place, (speaker, words, caption) in enumerate(turns, start=1)
        ]
    asked = [
        ("What is the name of Ana's puppy?", ["D1:1"], 4, "It is called Biscuit."),
        ("Who breeds greyhounds near Porto?", ["D1:2"], 4, "Ben's cousin"),
        ("What do Ana and Ben do every week?", ["D1:3; D2:1"], 1, "They hike in the forest, and Ben does pottery"),
        ("When was Ana promoted to head gardener?", ["D:2:2"], 2, "In May 2023, at the museum"),
        ("What colour is the vase in Ben's photo?", ["D2:06", "D2:03"], 3, "blue, his first"),
        ("Which orchid bloomed in the greenhouse?", ["D11:1"], 4, "finally the greenhouse one"),
        ("Why was the flight to Oslo cancelled?", ["D11:2", "D99:1"], 2, "snow"),
        ("What did Ben adopt last week?", ["D1:1"], 5, "a puppy"),
        ("Where does nobody live?", ["D"], 3, "Everybody lives somewhere"),
        ("What has no evidence?", [], 1, 2022),
    ]
    return {
        "sample_id": conversation_id,
        "conversation": talk,
        "observation": {},
        "session_summary": {},
        "event_summary": {},
        "qa": [
            {"question": question, "answer": answer, "evidence": evidence, "category": category}
            for question, evidence, category, answer in asked
        ],
    }


def write_locomo(folder: Path, *, conversations: int = 1) -> Path:
    """Write a file of that many conversations and return its path."""
    path = folder / "mini_locomo.json"
    path.write_text(json.dumps([sample(f"conv-{n}") for n in range(1, conversations + 1)]), encoding="utf-8")
    return path
