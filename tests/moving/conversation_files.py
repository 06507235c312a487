"""Exports of invented conversations, in the forms of the programs that write them."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

START = datetime(2021, 2, 3, 9, 0, tzinfo=UTC)
TOWNS = ("Porto", "Graz", "Bergen", "Turin", "Ghent", "Lund", "Cork", "Brno")
JOBS = ("baker", "nurse", "welder", "teacher", "pilot", "gardener")
LIKES = ("green tea", "night trains", "chess", "sourdough", "kayaks", "opera")
ASKED = (
    "How do I centre a heading on a page?",
    "Write a short poem about the sea.",
    "What is the tallest mountain in Wales?",
    "Shorten this paragraph, please.",
)


def chatgpt(conversations: int, *, messages: int = 5, seed: int = 1) -> list[dict[str, Any]]:
    """Return an export of ChatGPT; in each conversation the assistant claims something, and one reply was edited."""
    rng = Random(seed)
    return [_conversation(number, messages, rng) for number in range(conversations)]


def _conversation(number: int, messages: int, rng: Random) -> dict[str, Any]:
    at = (START + timedelta(hours=number)).timestamp()
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    parent = "root"

    def add(key: str, role: str, text: str, *, below: str) -> str:
        name = f"{number}-{key}"
        message = {
            "id": name,
            "author": {"role": role},
            "create_time": at + len(nodes),
            "content": {"content_type": "text", "parts": [text]},
            "metadata": {},
        }
        nodes[name] = {"id": name, "parent": below, "children": [], "message": message}
        nodes[below]["children"].append(name)
        return name

    for turn in range(messages):
        parent = add(f"user-{turn}", "user", _said(number, turn, rng), below=parent)
        if turn == 0:
            add("old", "assistant", "You live on the moon.", below=parent)
        parent = add(f"assistant-{turn}", "assistant", "You are allergic to peanuts.", below=parent)
    return {"id": f"talk-{number}", "title": "Talk", "create_time": at, "current_node": parent, "mapping": nodes}


def _said(number: int, turn: int, rng: Random) -> str:
    if turn:
        return f"{rng.choice(ASKED)} ({number}.{turn})"
    return rng.choice(
        (
            f"My cousin number {number} lives in {rng.choice(TOWNS)}.",
            f"My neighbour {number} works as a {rng.choice(JOBS)}.",
            f"My friend from flat {number} likes {rng.choice(LIKES)}.",
        )
    )


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_zip(path: Path, files: dict[str, object]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name, value if isinstance(value, str) else json.dumps(value))
    return path


def claude(text: str, reply: str) -> list[dict[str, Any]]:
    at = START.isoformat().replace("+00:00", "Z")
    return [
        {
            "uuid": "c1",
            "name": "Talk",
            "created_at": at,
            "chat_messages": [
                {
                    "uuid": "m1",
                    "sender": "human",
                    "text": text,
                    "content": [{"type": "text", "text": text}, {"type": "tool_use", "name": "x", "input": {}}],
                    "created_at": at,
                },
                {"uuid": "m2", "sender": "assistant", "text": reply, "content": [], "created_at": at},
            ],
        }
    ]


def slack(text: str, reply: str) -> dict[str, object]:
    users = [
        {"id": "U1", "name": "ana", "real_name": "Ana Silva", "profile": {"display_name": "ana", "email": "ana@x.org"}},
        {"id": "U2", "name": "bo", "real_name": "Bo Lind", "profile": {"display_name": "bo"}},
    ]
    day = [
        {"type": "message", "user": "U1", "text": text, "ts": f"{START.timestamp():.6f}"},
        {"type": "message", "user": "U2", "text": reply, "ts": f"{START.timestamp() + 5:.6f}"},
        {"type": "message", "user": "U1", "subtype": "channel_join", "text": "joined", "ts": "1.0"},
    ]
    return {"users.json": users, "channels.json": [{"id": "C1", "name": "general"}], "general/2021-02-03.json": day}


def whatsapp(text: str, reply: str, *, style: str) -> str:
    if style == "ios":
        return (
            "\u200e[23/02/2021, 09:00:00] Ana: \u200eMessages and calls are end-to-end encrypted.\n"
            f"[23/02/2021, 09:00:05] Ana: {text}\n[23/02/2021, 09:01:00] Bo Lind: {reply}\n"
        )
    return (
        "2/23/21, 9:00\u202fAM - Messages and calls are end-to-end encrypted.\n"
        f"2/23/21, 9:00\u202fAM - Ana: {text}\nsecond line\n2/23/21, 9:01\u202fAM - Bo Lind: {reply}\n"
        "2/23/21, 9:02\u202fAM - Ana: <Media omitted>\n"
    )
