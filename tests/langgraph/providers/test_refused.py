"""Contexts that are too long for real clients of providers: what their own packages raise is survived.

The packages are imported where they are used, as they take a second of every process that collects tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pkgutil import resolve_name
from typing import Any, Final

import pytest
from langchain.agents import create_agent

import threadkeep
from tests.fakes.loopback import LoopbackServer
from threadkeep.langgraph.window import is_overflow
from threadkeep.testing import HashingEmbedder

MOST_BYTES: Final = 6_000
"""How long a request may be for the servers of this module."""

TURNS: Final = 12
ANSWER: Final = "I see."


def openai(error: bool) -> dict[str, Any]:
    if error:
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        kind = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
        return {"error": {"message": message, **kind}}
    choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def anthropic(error: bool) -> dict[str, Any]:
    if error:
        message = "prompt is too long: 210000 tokens > 200000 maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "r"}
    said = {"content": [{"type": "text", "text": ANSWER}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    return {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", **said}


def google(error: bool) -> dict[str, Any]:
    if error:
        message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP"}]}


Speech = Callable[[bool], dict[str, Any]]


class _Answers(BaseHTTPRequestHandler):
    served: Provider

    def do_POST(self) -> None:
        length = len(self.rfile.read(int(self.headers["Content-Length"])))
        error = length > MOST_BYTES
        self.served.refused += error
        body = json.dumps(self.served.speech(error)).encode()
        self.send_response(400 if error else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@dataclass(eq=False)
class Provider(LoopbackServer):
    """Refuses long requests as a provider does.

    Attributes:
        speech: What it says.
        refused: How many it refused.
    """

    handler = _Answers
    speech: Speech
    refused: int = 0


def chat_openai(url: str) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k", max_retries=0)  # type: ignore[arg-type]


def chat_anthropic(url: str) -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model="m", base_url=url, api_key="k", max_retries=0)  # type: ignore[call-arg,arg-type]


def chat_google(url: str) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(model="m", base_url=url, api_key="k", max_retries=1)  # type: ignore[call-arg]


CLIENTS: Final = {
    "OpenAI": (openai, chat_openai, "openai:BadRequestError"),
    "Anthropic": (anthropic, chat_anthropic, "langchain_core.exceptions:ContextOverflowError"),
    "Google": (google, chat_google, "langchain_core.exceptions:ContextOverflowError"),
}
"""What a provider says, who says it to us, and as which class: langchain-openai knows its code, which stands beside the
text, only where that is part of it."""


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
class TestRefused:
    async def test_the_user_is_answered_and_it_is_sent_once_more(self, tk: threadkeep.Threadkeep, name: str):
        speech, client, _ = CLIENTS[name]
        with Provider(speech) as provider:
            model = client(provider.origin)
            agent = create_agent(model, [], middleware=[tk.window()], checkpointer=tk.checkpointer)
            config = tk.config(user_id="ana@x.org", thread_id="long")

            for number in range(TURNS):
                said = f"Turn {number}. " + "We talk about the weather in the hills. " * 20
                state = await agent.ainvoke({"messages": [("user", said)]}, config)
                assert state["messages"][-1].text == ANSWER

        refused = tk.app.telemetry.counts()["window.refused"]
        assert refused > 0
        assert provider.refused >= refused  # a summary may be refused besides, and is then made without the model
        assert tk.app.telemetry.counts()["window.compacted"] == refused

    async def test_what_its_package_raises_is_recognised(self, name: str):
        speech, client, raised = CLIENTS[name]

        with Provider(speech) as provider, pytest.raises(resolve_name(raised)) as refused:
            await client(provider.origin).ainvoke("word " * MOST_BYTES)

        assert is_overflow(refused.value)
