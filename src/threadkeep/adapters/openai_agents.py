"""Sessions of the OpenAI Agents SDK in Threadkeep's storage, with the memory of their owner."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from agents.memory.session import SessionABC
from agents.run_config import CallModelData, ModelInputData
from typing_extensions import override

from threadkeep.adapters.owned_items import OwnedItems
from threadkeep.adapters.turns import LEAST_READ, SpokenText, learn
from threadkeep.ids import short_digest

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from threadkeep.client import Threadkeep
    from threadkeep.storage.interface import Delete, Put

_NAMESPACE: Final = ".agent-sessions"
_HEAD: Final = "head"


class ThreadkeepSession(SessionABC):
    """Keeps a conversation, learns from its turns, and adds what is remembered to the input of the model.

    ``Runner.run(agent, text, session=session, run_config=RunConfig(call_model_input_filter=session.add_memory))``

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
        session_id: The conversation; another owner's session of the same id is another one.
    """

    def __init__(self, tk: Threadkeep, session_id: str) -> None:
        self.session_id = session_id
        self._tk = tk
        self._items = OwnedItems(tk, _NAMESPACE, short_digest("session", session_id))

    @override
    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        count = await self._count()
        return await self._between(0 if limit is None else max(0, count - max(0, limit)), count)

    @override
    async def add_items(self, items: list[TResponseInputItem]) -> None:
        async def plan() -> tuple[list[Put], int]:
            (head,) = await self._items.get([_HEAD])
            count = 0 if head is None else int(head.value["count"])
            puts = [self._items.put(_HEAD, {"count": count + len(items)}, before=head)]
            for number, item in enumerate(items, count):
                puts.append(self._items.put(_key(number), {"item": dict(item)}, before=None))
            return puts, count

        if items:
            first = await self._items.change(plan)
            if any(role == "assistant" for role, _ in _said(items)):
                whole = await self._whole_turns(first, first + len(items))
                await learn(self._tk, _said(whole), thread_id=self.session_id)

    @override
    async def pop_item(self) -> TResponseInputItem | None:
        async def plan() -> tuple[list[Put | Delete], TResponseInputItem | None]:
            (head,) = await self._items.get([_HEAD])
            count = 0 if head is None else int(head.value["count"])
            (last,) = await self._items.get([_key(count - 1)]) if count else (None,)
            if last is None:
                return [], None
            left = self._items.put(_HEAD, {"count": count - 1}, before=head)
            return [left, self._items.delete(last)], cast("TResponseInputItem", last.value["item"])

        return await self._items.change(plan)

    @override
    async def clear_session(self) -> None:
        async def plan() -> tuple[list[Delete], None]:
            return [self._items.delete(item) for item in await self._items.all()], None

        await self._items.change(plan)

    async def add_memory(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input of the model with what is remembered in front of the newest message of the user.

        It is the ``call_model_input_filter`` of a ``RunConfig``; the session does not keep what it adds.
        """
        items = list(data.model_data.input)
        for place in range(len(items) - 1, -1, -1):
            item = cast("dict[str, Any]", items[place])
            if item.get("role") == "user" and (question := _text(item.get("content"))):
                found = await self._tk.recall(question, thread_id=self.session_id)
                if found.text:
                    changed = {**item, "content": _in_front(item["content"], found.text)}
                    items[place] = cast("TResponseInputItem", changed)
                break
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    async def _whole_turns(self, first: int, end: int) -> list[TResponseInputItem]:
        """Return the items before *end*, from where the turn of item *first* begins, or from further back."""
        read = max(LEAST_READ, end - first)
        while True:
            begin = max(0, end - read)
            items = await self._between(begin, end)
            if begin == 0 or _begins_turn(items[: first - begin + 1]):
                return items
            read *= 2

    async def _between(self, first: int, end: int) -> list[TResponseInputItem]:
        found = await self._items.get([_key(number) for number in range(first, end)])
        return [cast("TResponseInputItem", item.value["item"]) for item in found if item is not None]

    async def _count(self) -> int:
        (head,) = await self._items.get([_HEAD])
        return 0 if head is None else int(head.value["count"])


def _key(number: int) -> str:
    return f"{number:012}"


def _begins_turn(items: Sequence[TResponseInputItem]) -> bool:
    """Return whether a message of the user follows a reply in *items*; calls of tools stand in the middle of a turn."""
    roles = [cast("dict[str, Any]", item).get("role") for item in items]
    return ("assistant", "user") in pairwise(roles)


def _in_front(content: Any, text: str) -> Any:
    if isinstance(content, str):
        return f"{text}\n\n{content}"
    return [{"type": "input_text", "text": text}, *content]


def _text(content: Any) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))


def _said(items: Sequence[TResponseInputItem]) -> list[SpokenText]:
    said: list[SpokenText] = []
    for one in items:
        item = cast("dict[str, Any]", one)
        role, text = item.get("role"), _text(item.get("content"))
        if text and role in ("user", "assistant"):
            said.append((role, text))
    return said
