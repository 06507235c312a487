"""Helper models beside the agent's own model: real clients against servers on loopback that keep connections alive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from typing_extensions import override

import threadkeep
from tests.fakes.model_server import ModelServer, Reply, ToolCalls
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.helper_models import HelperModel
from threadkeep.models.langchain import LangChainEmbedder
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder

FACT = {"text": "The user's team deploys with ArgoCD.", "kind": "semantic", "replaces": None}
LEARNT = json.dumps({"facts": [FACT], "episode": "The user told how they deploy."})


class LearningServer(ModelServer):
    """Answers the prompt of the extractor with facts, and every other one with a short text."""

    @override
    def next_reply(self, request: dict[str, Any]) -> Reply:
        if "known_memories" not in json.dumps(request["messages"]):
            return "[1]"
        if not request.get("tools"):
            return LEARNT
        (tool, *_) = request["tools"]
        return ToolCalls([(tool["name"] if "name" in tool else tool["function"]["name"], LEARNT)])

    @property
    def learning(self) -> list[dict[str, Any]]:
        """The accepted requests that ask for facts."""
        return [
            request
            for request in self.requests
            if not self.refuses & request.keys() and "known_memories" in json.dumps(request)
        ]


@pytest.fixture
def server() -> Iterator[LearningServer]:
    with LearningServer() as entered:
        yield entered


def openai_model(server: LearningServer, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model="small-helper", base_url=server.base_url, api_key="none", max_retries=0, **more)


def anthropic_model(server: LearningServer, **more: Any) -> Any:
    from langchain_anthropic import ChatAnthropic

    made: Any = ChatAnthropic
    return made(model="claude-helper", base_url=server.origin, api_key="none", max_retries=0, max_tokens=500, **more)


VENDORS = pytest.mark.parametrize("make", [openai_model, anthropic_model], ids=["openai", "anthropic"])


class TestBesideTheAgent:
    @VENDORS
    @pytest.mark.parametrize("users", [1, 8])
    async def test_asynchronous_turns_and_helper_calls_share_a_base_url(
        self, make: Any, users: int, server: LearningServer
    ):
        """LangChain's cached client belongs to the agent's event loop; extraction and reranking use their own."""
        async with opened(make(server)) as tk:
            agent = agent_with(tk, make(server))

            async def user(number: int) -> None:
                config = tk.config(user_id=f"user-{number}", thread_id=f"thread-{number}")
                for turn in range(4):
                    said = f"We deploy service {number}-{turn} with ArgoCD. How do I roll back?"
                    await agent.ainvoke({"messages": [("user", said)]}, config)

            await asyncio.gather(*(user(number) for number in range(users)))
            await tk.drain()
            counts, reranked = failures(tk), tk.app.telemetry.counts().get("recall.reranked", 0)

        assert counts == {}
        assert reranked > 0 or users == 1  # one user has too few memories to reorder
        assert len(server.learning) == 4 * users

    @VENDORS
    def test_synchronous_turns_and_helper_calls_share_a_base_url(self, make: Any, server: LearningServer):
        """The same from a program without an event loop, by several threads at once."""
        with opened(make(server)) as tk:
            agent = agent_with(tk, make(server))

            def user(number: int) -> None:
                for turn in range(4):
                    said = f"We deploy service {number}-{turn} with ArgoCD. How do I roll back?"
                    config = tk.config(user_id=f"user-{number}", thread_id=f"thread-{number}")
                    agent.invoke({"messages": [("user", said)]}, config)

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(user, range(4)))
            tk.sync.drain()
            counts = failures(tk)

        assert counts == {}
        assert len(server.learning) == 16

    async def test_the_same_model_object_serves_agent_and_helper(self, server: LearningServer):
        """The application may give open() the very model that its agent uses; it is copied, never changed."""
        model = openai_model(server)
        async with opened(model) as tk:
            agent = agent_with(tk, model)
            for turn in range(4):
                question = {"messages": [("user", f"We deploy service {turn} with ArgoCD.")]}
                await agent.ainvoke(question, tk.config(user_id="ana", thread_id="t1"))
            await tk.drain()
            counts = failures(tk)

        assert counts == {}
        assert model.temperature is None

    @VENDORS
    async def test_summaries_of_blocking_turns_disturb_no_asynchronous_ones(self, make: Any, server: LearningServer):
        """A blocking turn is compacted in Threadkeep's event loop, by a model that asynchronous turns use meanwhile."""
        async with opened(make(server), reranker=None) as tk:
            window = tk.window(max_tokens=400, keep=("messages", 1))
            middleware = [tk.middleware(), window]
            made: Any = create_agent(make(server), [], middleware=middleware, checkpointer=tk.checkpointer)

            def blocking(turn: int) -> None:
                said = f"Service {turn} is deployed with ArgoCD. " * 20
                made.invoke({"messages": [("user", said)]}, tk.config(user_id="ana", thread_id="long"))

            async def asynchronous(turn: int) -> None:
                config = tk.config(user_id="ben", thread_id=f"ben-{turn}")
                await made.ainvoke({"messages": [("user", "How do I roll back?")]}, config)

            for turn in range(6):
                await asyncio.gather(asyncio.to_thread(blocking, turn), asynchronous(turn))
            counted = tk.app.telemetry.counts()

        assert counted["window.compacted"] > 0
        assert "window.model" not in counted
        summaries = [request for request in server.requests if "Summarise" in json.dumps(request)]
        assert summaries
        assert all(request["temperature"] == 0 for request in summaries)


class TestRefusedParameters:
    @VENDORS
    async def test_refused_parameter_is_dropped_once_and_remembered(self, make: Any, server: LearningServer):
        """gpt-5 and its like refuse a temperature: the first extraction asks twice, the next ones once."""
        server.refuses = frozenset({"temperature"})
        async with opened(make(server), reranker=None) as tk:
            for turn in range(3):
                said = [("user", f"We deploy service {turn} with ArgoCD."), ("assistant", "Noted.")]
                await tk.capture(said, owner="ana", thread_id="t1", wait=True)
            counts = failures(tk)

        assert counts == {}
        assert (server.refusals, len(server.learning)) == (1, 3)

    async def test_refused_schema_is_asked_for_in_another_way(self, server: LearningServer):
        """A server without structured output is asked by a tool, and without tools by the instructions alone."""
        server.refuses = frozenset({"response_format", "tools"})
        async with opened(openai_model(server), reranker=None) as tk:
            for turn in range(2):
                said = [("user", f"We deploy service {turn} with ArgoCD."), ("assistant", "Noted.")]
                await tk.capture(said, owner="ana", thread_id="t1", wait=True)
            counts = failures(tk)

        assert counts == {}
        assert (server.refusals, len(server.learning)) == (2, 2)

    async def test_a_refusal_is_shared_by_all_helpers_of_a_model(self, server: LearningServer):
        """What extraction was refused, reranking does not send."""
        server.refuses = frozenset({"temperature"})
        for _ in range(2):
            helper = HelperModel(openai_model(server), {"temperature": 0})
            await helper.ask("Hello")
            await helper.aclose()

        assert server.refusals == 1

    async def test_another_refusal_is_raised(self, server: LearningServer):
        """A status of 400 that names nothing that we sent is no reason to ask again."""
        server.refuses = frozenset({"messages"})
        helper = HelperModel(openai_model(server), {"temperature": 0})

        with pytest.raises(Exception, match="messages"):
            await helper.ask("Hello")
        await helper.aclose()
        assert server.refusals == 1

    async def test_settings_reach_the_request(self, server: LearningServer):
        """Reasoning effort and temperature are sent as they are set."""
        more = {"helper_temperature": "0.5", "helper_reasoning_effort": "low"}
        async with opened(openai_model(server), reranker=None, **more) as tk:
            await tk.capture([("user", "We deploy with ArgoCD.")], owner="ana", thread_id="t1", wait=True)

        (request,) = server.learning
        assert (request["temperature"], request["reasoning_effort"]) == (0.5, "low")


class TestTransports:
    async def test_transport_of_the_application_is_kept(self, server: LearningServer):
        """A model with an HTTP client of the application's, such as one for a proxy, is called through that."""
        import openai

        made: Any = openai
        seen: list[str] = []
        with made.DefaultHttpxClient(event_hooks={"request": [lambda request: seen.append(str(request.url))]}) as http:
            answer = await HelperModel(openai_model(server, http_client=http)).ask("Hello")

        assert answer.text == "[1]"
        assert len(seen) == 1


class TestEmbeddings:
    async def test_failed_host_and_reason_are_named(self):
        """Without counting tokens, which would download a vocabulary, and without the key."""
        made: Any = OpenAIEmbeddings
        embeddings = made(base_url="http://127.0.0.1:9/v1", api_key="secret-key", max_retries=0)

        with pytest.raises(EmbedderUnavailableError, match=r"at 127\.0\.0\.1:9 failed .*refused") as caught:
            await LangChainEmbedder(embeddings).embed(["hello"])
        assert "secret-key" not in str(caught.value)


def opened(model: BaseChatModel, *, reranker: str | None = "model", **more: str) -> threadkeep.Threadkeep:
    chosen = {} if reranker is None else {"reranker": reranker, "rerank_timeout_ms": "10000"}
    settings = Settings.load(
        store_type="memory", enable_fact_extraction="true", recall_timeout_ms="20000", **chosen, **more
    )
    return threadkeep.open(settings=settings, model=model, embedder=HashingEmbedder())


def agent_with(tk: threadkeep.Threadkeep, model: BaseChatModel) -> Any:
    made: Any = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
    return made


def failures(tk: threadkeep.Threadkeep) -> dict[str, int]:
    """Return what was counted of failed helper calls."""
    counted = tk.app.telemetry.counts()
    return {
        name: count
        for name, count in counted.items()
        if "fail" in name or ("rerank" in name and name != "recall.reranked")
    }
