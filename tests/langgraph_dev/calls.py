"""What a client of the server does: begin threads, say something, ask any route."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from threadkeep.identity import Owner


def owner_label(user_id: str) -> str:
    return Owner(user_id).label


def thread_of(server: str, token: str) -> str:
    return call(f"{server}/threads", token, {})["thread_id"]


def said(server: str, token: str, thread_id: str, text: str, **configurable: str) -> str:
    body = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": text}]},
        "config": {"configurable": configurable},
    }
    values = call(f"{server}/threads/{thread_id}/runs/wait", token, body)
    assert "__error__" not in values, values
    return str(values["messages"][-1]["content"])


def call(url: str, token: str, body: dict[str, Any] | None = None, *, method: str | None = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def answer_to(method: str, url: str, token: str, body: Any = None) -> tuple[int, str]:
    """Return status and text of whatever the server answers."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    headers["Accept"] = "application/json, text/event-stream"
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
