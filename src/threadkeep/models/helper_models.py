"""Chat models that Threadkeep calls itself: for extraction, reranking and summaries.

LangChain's clients share one asynchronous HTTP client per base URL in the process, and a connection belongs to the
event loop that opened it. Helper calls run in Threadkeep's own event loop, so a shared client would fail them, and the
agent's own turns with them. A helper model therefore has an HTTP client of its own in each event loop that calls it; a
model with a client that cannot be replaced is called synchronously in a thread.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable, RunnableConfig

Shape: TypeAlias = "Callable[[BaseChatModel], Runnable[Any, Any]]"
"""Binds a model to what one kind of call needs, such as a schema for the answer."""

_REFUSED: Final = frozenset({400, 422})
_FORMAT: Final = re.compile(
    r"response_format|json_schema|output_config|text\.format|structured output|tool_choice|\btools?\b|\bstrict\b",
    re.IGNORECASE,
)


def unbound(model: BaseChatModel) -> Runnable[Any, Any]:
    """Return *model* as it is: the shape of a call that wants text."""
    return model


class HelperModel:
    """A chat model for Threadkeep's own calls, in any event loop.

    A parameter that the provider refuses is left out of the same call and of every later one. So is a shape, where
    there is another one. Methods may be called from several event loops and threads.

    Args:
        model: The chat model; it is copied, never changed.
        parameters: Values for the model's fields, such as ``temperature``. Fields that the model does not have are
            left out.
    """

    def __init__(self, model: BaseChatModel, parameters: Mapping[str, Any] | None = None) -> None:
        self.name: str = name_of(model)
        self._model = model
        fields = getattr(type(model), "model_fields", {})
        self._parameters = {name: value for name, value in (parameters or {}).items() if name in fields}
        self._refusals = _refusals_of(model)
        self._copies: WeakKeyDictionary[asyncio.AbstractEventLoop, _Copy] = WeakKeyDictionary()

    async def ask(
        self, prompt: Any, config: RunnableConfig | None = None, *, shapes: Sequence[Shape] = (unbound,)
    ) -> Any:
        """Return the model's answer to *prompt*.

        Args:
            prompt: What the model or its shape takes, such as a list of messages.
            config: LangChain's configuration of the call.
            shapes: How to bind the model, the preferred one first. The next one is used where the provider refuses one.

        Raises:
            Exception: What the provider's client raises.
        """
        loop = asyncio.get_running_loop()
        copy = self._copies.get(loop)
        if copy is None:
            copy = self._copies[loop] = _Copy.of(self._model)
        while True:
            place = next((place for place in range(len(shapes)) if place not in self._refusals.shapes), len(shapes) - 1)
            refused = self._refusals.parameters
            sent = {name: None if name in refused else value for name, value in self._parameters.items()}
            runnable = shapes[place](copy.model.model_copy(update=sent) if sent else copy.model)
            try:
                if copy.asynchronous:
                    return await runnable.ainvoke(prompt, config)
                return await asyncio.to_thread(runnable.invoke, prompt, config)
            except Exception as error:
                if not self._leave_out(error, sent, place=place, last=place == len(shapes) - 1):
                    raise

    async def aclose(self) -> None:
        """Close the HTTP client of the running event loop; a later call opens a new one."""
        copy = self._copies.pop(asyncio.get_running_loop(), None)
        if copy is not None and copy.http is not None:
            await copy.http.aclose()

    def _leave_out(self, error: Exception, sent: Mapping[str, Any], *, place: int, last: bool) -> bool:
        """Remember which parameter or shape *error* refuses; return whether another call may succeed."""
        if getattr(error, "status_code", None) not in _REFUSED:
            return False
        words = f"{getattr(error, 'param', None)} {error}"
        for name, value in sent.items():
            if value is not None and re.search(rf"\b{name.replace('_', '[_. ]')}\b", words):
                self._refusals.parameters.add(name)
                return True
        if not last and _FORMAT.search(words):
            self._refusals.shapes.add(place)
            return True
        return False


@dataclass(frozen=True, slots=True)
class _Refusals:
    """What a provider's model refuses, by the names of parameters and the positions of shapes."""

    parameters: set[str] = field(default_factory=set[str])
    shapes: set[int] = field(default_factory=set[int])


_REFUSALS: Final[dict[tuple[str, ...], _Refusals]] = {}
"""By provider, address and model: extraction, reranking and summaries share what one of them was refused."""


def _refusals_of(model: BaseChatModel) -> _Refusals:
    address = getattr(model, "openai_api_base", None) or getattr(model, "anthropic_api_url", None) or ""
    kind = type(model)
    if not isinstance(address, str) or getattr(model, "any_event_loop", False):
        return _Refusals()
    return _REFUSALS.setdefault((kind.__module__, kind.__qualname__, address, name_of(model)), _Refusals())


class _Copy:
    """A model with an HTTP client of its own, for one event loop."""

    def __init__(self, model: BaseChatModel, http: Any, *, asynchronous: bool) -> None:
        self.model = model
        self.http = http
        self.asynchronous = asynchronous

    @classmethod
    def of(cls, model: BaseChatModel) -> _Copy:
        """Copy *model* for the running event loop; a model with a transport of the application's is not replaced."""
        if getattr(model, "any_event_loop", False):
            return cls(model, None, asynchronous=True)
        from langchain_core.language_models import BaseChatModel

        if not isinstance(model, BaseChatModel) or any(getattr(model, name, None) is not None for name in _TRANSPORTS):
            return cls(model, None, asynchronous=False)
        for name in _CLIENT_FIELDS:
            client: Any = getattr(model, name, None)
            if client is not None:
                vendor: Any = sys.modules[type(client).__module__.partition(".")[0]]
                http = vendor.DefaultAsyncHttpxClient(timeout=client.timeout)
                return cls(_with_client(model, name, client.copy(http_client=http)), http, asynchronous=True)
        return cls(model, None, asynchronous=False)


_CLIENT_FIELDS: Final = ("root_async_client", "_async_client")
"""Where langchain-openai (and what derives from it) and langchain-anthropic keep the client of their vendor's SDK."""

_TRANSPORTS: Final = ("http_async_client", "http_client", "anthropic_proxy")
"""Set where the application has chosen a transport, such as a proxy or certificates: it must not be replaced."""


def _with_client(model: BaseChatModel, name: str, client: Any) -> BaseChatModel:
    copy = model.model_copy()
    attributes: dict[str, Any] = vars(copy)  # a cached property has no setter
    attributes[name] = client
    if name == "root_async_client":
        attributes["async_client"] = client.chat.completions
    return copy


def name_of(model: BaseChatModel) -> str:
    """Return the model's name for usage records; its class where it has none."""
    for attribute in ("model_name", "model", "model_id"):
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return value
    return type(model).__name__
