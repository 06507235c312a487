"""The window in real agents: what the model sees, what the state holds, and what a long talk still knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import Field

import threadkeep
from threadkeep.errors import ContextTooLargeError
from threadkeep.langgraph.history import LEFT_OUT, SUMMARY_HEADING, UNANSWERED, call_ids, estimated
from threadkeep.langgraph.window import is_overflow
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_evals.facts import Fact

ANA = "ana@x.org"
OWNED = ("cat", "dog", "boat", "horse", "parrot", "guitar", "bakery", "tortoise", "garden", "canoe")
NAMED = [
    (f"{size}{what}", f"{name}{what}".capitalize())
    for size, name in (("", "mira"), ("old ", "tobi"), ("little ", "zena"), ("first ", "luko"), ("second ", "pavo"))
    for what in OWNED
]
"""Fifty things of a user, and what each is called."""


class LimitedModel(BaseChatModel):
    """Refuses contexts over its limit, as a provider does, and answers with what it reads about the question."""

    limit: int = 1_000
    prompts: list[list[BaseMessage]] = Field(default_factory=list)
    known: dict[str, str] = Field(default_factory=dict)
    refused: int = 0
    summaries: int = 0

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.prompts.append(messages)
        if estimated(messages).total > self.limit:
            self.refused += 1
            msg = f"This model's maximum context length is {self.limit} tokens."
            raise ContextOverflowError(msg)
        question = messages[-1].text
        if question.startswith("Summarise the conversation"):
            self.summaries += 1
            return answered("The user and the assistant talked about many things.")
        everything = "\n".join(message.text for message in messages)
        answer = next((a for q, a in self.known.items() if question.endswith(q)), None)
        return answered(answer if answer is not None and answer in everything else "I see.")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)

    @property
    def _llm_type(self) -> str:
        return "limited"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def answered(text: str) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def long(number: int) -> str:
    return f"This is message number {number}. " + "We talk about the weather in the hills. " * 10


def agent_of(tk: threadkeep.Threadkeep, model: Any, **window: Any) -> Any:
    return create_agent(
        model, tools=[], middleware=[tk.middleware(), tk.window(**window)], checkpointer=tk.checkpointer
    )


async def messages_of(agent: Any, config: Any) -> list[AnyMessage]:
    return (await agent.aget_state(config)).values["messages"]


class TestCompaction:
    async def test_older_messages_give_way_to_one_summary(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=100_000)
        agent = agent_of(tk, model, max_tokens=2_000)
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(30):
            await agent.ainvoke(said(long(number)), config)

        held = await messages_of(agent, config)
        summaries = [message for message in held if message.text.startswith(SUMMARY_HEADING)]
        assert [message.additional_kwargs["lc_source"] for message in summaries] == ["summarization"]
        assert held[0] is summaries[0]
        assert len(held) < 30  # how many are left depends on what was recalled in time
        assert estimated(held).total <= 2_000
        assert held[-2].text == long(29)
        assert model.summaries >= 2
        assert model.refused == 0

    @pytest.mark.parametrize("opted_out", [True, False])
    async def test_what_was_said_by_an_owner_who_had_opted_out_reaches_no_other_thread(
        self, tk: threadkeep.Threadkeep, *, opted_out: bool
    ):
        """Neither in a summary nor in a record of what the window removes."""
        view = tk.per_run_owner()
        middleware = [view.middleware(), view.window(max_tokens=2_000)]
        model = LimitedModel(limit=100_000)
        agent: Any = create_agent(model, tools=[], middleware=middleware, checkpointer=view.checkpointer)
        if opted_out:
            await tk.owners.opt_out(ANA)
        await agent.ainvoke(said("My boat is called Wave."), view.config(ANA, thread_id="1"))
        if opted_out:
            await tk.owners.opt_out(ANA, out=False)

        for number in range(30):
            await agent.ainvoke(said(long(number)), view.config(ANA, thread_id="1"))
        await tk.drain()

        summaries = await tk.store.asearch(("summaries", tk.label(ANA)))
        assert model.summaries >= 2
        assert len(summaries) == (not opted_out)
        memories = await tk.memories.list(owner=ANA, limit=1_000)
        assert any("Wave" in memory.text for memory in memories) == (not opted_out)

    @pytest.mark.parametrize("blocking", [True, False])
    async def test_the_summary_is_not_streamed_as_a_message(self, tk: threadkeep.Threadkeep, *, blocking: bool):
        """A client shows the messages of this mode; the state has the summary."""
        agent = agent_of(tk, LimitedModel(limit=100_000), max_tokens=2_000)
        config = tk.config(user_id=ANA, thread_id="long")
        streamed: list[str] = []

        for number in range(15):
            if blocking:
                events = await asyncio.to_thread(
                    lambda text: list(agent.stream(said(text), config, stream_mode="messages")), long(number)
                )
            else:
                events = [one async for one in agent.astream(said(long(number)), config, stream_mode="messages")]
            streamed += [message.text for message, _ in events]

        held = await messages_of(agent, config)
        assert held[0].text.startswith(SUMMARY_HEADING)
        assert [text for text in streamed if "summar" in text.lower() or "many things" in text] == []
        assert streamed == ["I see."] * 15

    async def test_it_is_kept_once_for_other_threads(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, LimitedModel(limit=100_000), max_tokens=2_000)
        for number in range(30):
            await agent.ainvoke(said(long(number)), tk.config(user_id=ANA, thread_id="long"))

        found = await tk.store.asearch(("summaries", tk.label(ANA)))

        assert [item.value["summary"] for item in found] == ["The user and the assistant talked about many things."]
        assert found[0].value["thread_id"] == "long"

    async def test_what_recall_showed_is_not_written_into_the_thread(self, tk: threadkeep.Threadkeep):
        await tk.memories.remember("I keep my passport in the blue drawer.", owner=ANA)
        agent = agent_of(tk, LimitedModel(limit=100_000), max_tokens=2_000)
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(15):
            await agent.ainvoke(said(f"Where is my passport? {long(number)}"), config)

        assert not any("blue drawer" in message.text for message in await messages_of(agent, config))

    async def test_off_means_off(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, LimitedModel(limit=100_000), max_tokens=2_000, compress=False)
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(15):
            await agent.ainvoke(said(long(number)), config)

        assert len(await messages_of(agent, config)) == 30

    async def test_a_model_that_fails_at_it_is_done_without(self, tk: threadkeep.Threadkeep):
        class Failing(LimitedModel):
            def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
                if messages[-1].text.startswith("Summarise"):
                    msg = "no summaries today"
                    raise ValueError(msg)
                return super()._generate(messages)

        agent = agent_of(tk, Failing(limit=100_000), max_tokens=2_000)
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(15):
            await agent.ainvoke(said(f"The number of the hour is {number}. {long(number)}"), config)

        (summary,) = [m for m in await messages_of(agent, config) if m.text.startswith(SUMMARY_HEADING)]
        assert "User: " in summary.text

    def test_without_a_loop(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=2_000)
        agent = agent_of(tk, model, max_tokens=2_000)
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(15):
            agent.invoke(said(long(number)), config)

        held = agent.get_state(config).values["messages"]
        assert sum(message.text.startswith(SUMMARY_HEADING) for message in held) == 1
        assert model.refused == 0

    async def test_without_an_owner_nothing_is_kept(self, tk: threadkeep.Threadkeep):
        agent = create_agent(LimitedModel(limit=2_000), tools=[], middleware=[tk.window(max_tokens=2_000)])

        state = await agent.ainvoke({"messages": [{"role": "user", "content": long(n)} for n in range(20)]})

        assert state["messages"][0].text.startswith(SUMMARY_HEADING)
        assert await tk.store.asearch(("summaries",)) == []


class TestRefused:
    async def test_a_refused_context_is_sent_again_smaller(self, tk: threadkeep.Threadkeep):
        """The limit that was configured was too high: the model's own answer corrects it, unseen by the user."""
        model = LimitedModel(limit=1_500)
        agent = agent_of(tk, model, max_tokens=4_000)
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(20):
            state = await agent.ainvoke(said(long(number)), config)
            assert state["messages"][-1].text == "I see."

        assert model.refused > 0
        assert tk.app.telemetry.counts()["window.refused"] <= model.refused

    async def test_it_is_sent_again_once(self, tk: threadkeep.Threadkeep):
        """A model that refuses whatever it is sent is asked twice, and its error is the caller's."""
        first, second = ContextOverflowError("too long"), ContextOverflowError("too long still")
        model = ScriptedModel(replies=["I see.", first, "A summary.", second])
        agent = agent_of(tk, model)
        config = tk.config(user_id=ANA, thread_id="long")
        await agent.ainvoke(said(long(1)), config)

        with pytest.raises(ContextOverflowError, match="too long still"):
            await agent.ainvoke(said(long(2)), config)

        assert len(model.prompts) == 4
        assert tk.app.telemetry.counts()["window.refused"] == 1

    async def test_what_can_never_fit_is_named(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, LimitedModel(limit=500), max_tokens=1_000)

        with pytest.raises(ContextTooLargeError, match="user message"):
            await agent.ainvoke(said("word " * 5_000), tk.config(user_id=ANA, thread_id="huge"))

    async def test_another_error_is_the_models(self, tk: threadkeep.Threadkeep):
        agent = agent_of(tk, ScriptedModel(replies=[ValueError("no")]))

        with pytest.raises(ValueError, match=r"^no"):
            await agent.ainvoke(said("Hello"), tk.config(user_id=ANA, thread_id="t"))


class TestRepair:
    @pytest.mark.parametrize(
        "asking",
        [
            AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}]),
            AIMessage([{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]),
            AIMessage([{"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}]),
            AIMessage("", invalid_tool_calls=[{"name": "look", "args": "{", "id": "c1", "error": "no"}]),
            AIMessage(
                "",
                additional_kwargs={
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
                },
            ),
        ],
        ids=["tool_calls", "tool_use", "toolUse", "invalid", "additional_kwargs"],
    )
    async def test_a_call_that_was_never_answered_is_answered_in_place(
        self, tk: threadkeep.Threadkeep, asking: AIMessage
    ):
        model = ScriptedModel()
        agent = agent_of(tk, model)
        config = tk.config(user_id=ANA, thread_id="broken")
        assert call_ids(asking) == ["c1"]
        await agent.aupdate_state(config, {"messages": [HumanMessage("Look it up."), asking]}, as_node="model")

        await agent.ainvoke(said("Hello?"), config)

        held = await messages_of(agent, config)
        assert [message.type for message in held] == ["human", "ai", "tool", "human", "ai"]
        assert held[2].tool_call_id == "c1"  # type: ignore[union-attr]
        assert held[2].text == UNANSWERED or asking.invalid_tool_calls  # those LangChain answers itself
        assert [message.type for message in model.prompts[-1]][:3] == ["human", "ai", "tool"]

    async def test_the_shipped_agent_answers_an_open_call(self, tk: threadkeep.Threadkeep):
        model = ScriptedModel()
        agent = tk.graph(model=model)
        config = tk.config(user_id=ANA, thread_id="broken")
        asking = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
        await agent.aupdate_state(config, {"messages": [HumanMessage("Look it up."), asking]}, as_node="model")

        await agent.ainvoke(said("Hello?"), config)

        assert [message.type for message in await messages_of(agent, config)] == ["human", "ai", "tool", "human", "ai"]

    async def test_a_call_that_nothing_can_answer_goes(self, tk: threadkeep.Threadkeep):
        twice = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}] * 2)
        agent = agent_of(tk, ScriptedModel())
        config = tk.config(user_id=ANA, thread_id="broken")
        stray = ToolMessage("x", tool_call_id="gone")
        await agent.aupdate_state(config, {"messages": [HumanMessage("Look."), twice, stray]}, as_node="model")

        await agent.ainvoke(said("Hello?"), config)

        held = await messages_of(agent, config)
        assert [message.type for message in held] == ["human", "ai", "human", "ai"]
        assert (held[1].text, held[1].tool_calls) == (LEFT_OUT, [])  # type: ignore[union-attr]

    async def test_a_whole_history_is_left_alone(self, tk: threadkeep.Threadkeep):
        @tool
        def look() -> str:
            """Look."""
            return "seen"

        calling = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
        agent = create_agent(
            ScriptedModel(replies=[calling, "Done."]),
            tools=[look],
            middleware=[tk.window()],
            checkpointer=tk.checkpointer,
        )
        config = tk.config(user_id=ANA, thread_id="whole")

        state = await agent.ainvoke(said("Look."), config)

        assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"]
        assert tk.app.telemetry.counts().get("window.repaired", 0) == 0


class TestDeepAgent:
    async def test_a_deep_agents_thread_is_repaired_and_compacted(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=100_000)
        agent = create_deep_agent(
            model, middleware=[tk.middleware(), tk.window(max_tokens=12_000)], checkpointer=tk.checkpointer
        )
        config = tk.config(user_id=ANA, thread_id="deep")

        for number in range(8):
            await agent.ainvoke(said(f"{number} " + "We talk about the weather in the hills. " * 120), config)

        held = (await agent.aget_state(config)).values["messages"]
        assert sum(message.text.startswith(SUMMARY_HEADING) for message in held) == 1
        assert held[-1].text == "I see."


CUT_OFF = 37
"""The turn of each fifty before which a call was left without its result."""


class StrictModel(LimitedModel):
    """Refuses what providers refuse besides: a call that is not answered at once, and a result that nobody called for.

    It counts its tokens in its own way, eight where five are estimated. Asked to look up, it calls two
    tools at once.
    """

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        open_calls: set[str] = set()
        for message in messages:
            if isinstance(message, ToolMessage):
                open_calls.remove(message.tool_call_id)  # a KeyError where it was not called
                continue
            assert not open_calls, "a call without its result"
            open_calls = set(call_ids(message))
        assert not open_calls, "a call without its result"
        if estimated(messages).total * 8 > self.limit * 5:
            self.limit, limit = 0, self.limit
            try:
                return super()._generate(messages)
            finally:
                self.limit = limit
        newest = messages[-1]
        if isinstance(newest, HumanMessage) and newest.text.splitlines()[-1].startswith("Look up"):
            self.prompts.append(messages)
            places = ("hills", "coast")
            made = [{"name": "look_up", "args": {"place": one}, "id": f"{one}{len(self.prompts)}"} for one in places]
            return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=made))])
        return super()._generate(messages)


@tool
def look_up(place: str) -> str:
    """Look the weather of a place up."""
    return f"The weather at the {place}: " + "sun in the morning, then clouds. " * 10


class TestALongTalk:
    @pytest.mark.slow
    async def test_a_hundred_turns(self, tk: threadkeep.Threadkeep):
        await self.talk(tk, turns=100, facts=10)

    @pytest.mark.soak
    @pytest.mark.timeout(1_200)
    async def test_five_hundred_turns(self, tk: threadkeep.Threadkeep):
        await self.talk(tk, turns=500, facts=50)

    async def talk(self, tk: threadkeep.Threadkeep, *, turns: int, facts: int) -> None:
        """Plant facts in the first turns, talk on, and ask for each at the end; nothing ever fails.

        Every fifth turn after the facts calls two tools at once, and one in fifty is cut off between its calls
        and their results.
        """
        planted = [
            Fact(f"My {what} is called {name}.", f"What is my {what} called?", name) for what, name in NAMED[:facts]
        ]
        model = StrictModel(limit=2_000, known={fact.question: fact.answer for fact in planted})
        agent = create_agent(
            model,
            [look_up],
            middleware=[tk.middleware(), tk.window(max_tokens=2_000)],
            checkpointer=tk.checkpointer,
        )
        config = tk.config(user_id=ANA, thread_id="long")
        texts = [fact.text for fact in planted]
        for number in range(turns):
            text = texts[number] if number < facts else f"Look up {number}." if number % 5 == 0 else long(number)
            if number % 50 == CUT_OFF:
                asking = AIMessage("", tool_calls=[{"name": "look_up", "args": {"place": "x"}, "id": f"x{number}"}])
                await agent.aupdate_state(config, {"messages": [HumanMessage("Look."), asking]}, as_node="model")
            state = await agent.ainvoke(said(text), config)
            assert state["messages"][-1].text == "I see."
        await tk.drain()

        missed: list[str] = []
        for fact in planted:
            state = await agent.ainvoke(said(fact.question), config)
            if state["messages"][-1].text != fact.answer:
                missed.append(fact.question)

        assert missed == []
        assert model.summaries > 0
        assert model.refused > 0
        assert sum(len(call_ids(message)) == 2 for message in prompts_with(model, AIMessage)) > turns // 10


def prompts_with(model: LimitedModel, kind: type[BaseMessage]) -> Sequence[BaseMessage]:
    return [message for prompt in model.prompts for message in prompt if isinstance(message, kind)]


class TestSystemPrompt:
    async def test_it_is_kept_and_counted(self, tk: threadkeep.Threadkeep):
        model = LimitedModel(limit=2_000)
        agent = create_agent(
            model,
            tools=[],
            system_prompt="You are kind. " * 100,
            middleware=[tk.window(max_tokens=2_000)],
            checkpointer=tk.checkpointer,
        )
        config = tk.config(user_id=ANA, thread_id="long")

        for number in range(15):
            await agent.ainvoke(said(long(number)), config)

        assert model.refused == 0
        assert len(prompts_with(model, SystemMessage)) == 15


OVER = {
    "OpenAI": "Error code: 400 - {'error': {'message': \"This model's maximum context length is 128000 tokens.\"}}",
    "OpenAI responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "OpenAI by its settings": "Input tokens exceed the configured limit of 272000 tokens.",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "Anthropic with an output": "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000",
    "Anthropic by bytes": "413 {'type': 'request_too_large', 'message': 'Request exceeds the maximum size'}",
    "Bedrock": "An error occurred (ValidationException) when calling the Converse operation: The model returned the "
    "following errors: Input is too long for requested model.",
    "Bedrock Nova": "Too many input tokens. Max input tokens: 128000, request input token count: 150000",
    "Bedrock by characters": "Malformed input request: expected maxLength: 100000, actual: 120000, please reformat",
    "Google": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Vertex": "400 Unable to submit request because the input token count is 1100000 but model only supports up to "
    "1048576. Reduce the input token count and try again.",
    "Mistral": "Error response 400 while fetching https://api.mistral.ai/v1/chat/completions: {'message': 'Prompt "
    "contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length'}",
    "Ollama": "the input length exceeds the context length (status code: 400)",
    "Ollama, not cutting": "prompt too long; exceeded max context length by 1200 tokens (status code: 400)",
    "Groq": "Please reduce the length of the messages or completion.",
    "Cohere": "too many tokens: total number of tokens in the prompt exceeds the limit of 4081 tokens.",
    "Copilot": "prompt token count of 137500 exceeds the limit of 128000",
    "Kimi": "Your request exceeded model token limit: 262144",
    "Qwen": "Range of input length should be [1, 30720]",
    "SGLang": "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "vLLM": "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
    "LM Studio": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
}
NOT_OVER = {
    "Bedrock at its rate": "An error occurred (ThrottlingException): Too many tokens, please wait before trying again.",
    "Bedrock at its day's rate": "An error occurred (ThrottlingException) when calling the Converse operation: Too "
    "many tokens per day, please wait before trying again.",
    "Anthropic at its rate": "This request would exceed your organization's rate limit of 30,000 input tokens per "
    "minute.",
    "Google at its rate": "429 RESOURCE_EXHAUSTED. You exceeded your current quota. Quota exceeded for metric: "
    "generate_content_free_tier_input_token_count, limit: 250000",
    "a picture": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 8000000 bytes > 5242880 bytes",
    "OpenAI at its rate": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000.",
    "Anthropic's output": "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens",
    "a key": "Incorrect API key provided",
}


class TestWordsOfProviders:
    """What they say of a context that is too long, and of other limits, which a shorter context would not help."""

    @pytest.mark.parametrize("said", OVER.values(), ids=OVER)
    def test_too_long(self, said: str):
        assert is_overflow(ValueError(said))

    def test_too_long_by_its_code(self):
        """OpenAI's stands beside the text, whatever that says."""
        error = ValueError("Bad request")
        error.code = "context_length_exceeded"  # type: ignore[attr-defined]

        assert is_overflow(error)

    @pytest.mark.parametrize("said", NOT_OVER.values(), ids=NOT_OVER)
    def test_something_else(self, said: str):
        assert not is_overflow(ValueError(said))
