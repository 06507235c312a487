"""What a message of another agent asks for, who sends it, and how the protocol says what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InternalError, InvalidParamsError
from google.protobuf.json_format import MessageToDict, SerializeToJsonError

from threadkeep.gateway.bodies import ID_CHARACTERS, MESSAGE_CHARACTERS, as_object
from threadkeep.gateway.operations import OPERATIONS, PROPOSE_FORGETTING, Caller, Operation
from threadkeep.gateway.public_errors import TOO_MANY, public_error

SKILL: Final = "skill"
"""The field of a data part that names the skill; ``arguments`` has what it takes."""

SKILLS: Final[Mapping[str, Operation]] = {
    "recall": OPERATIONS["search_memory"],
    "remember": OPERATIONS["remember"],
    "why": OPERATIONS["why"],
    "forget": PROPOSE_FORGETTING,
    "proposals": OPERATIONS["list_proposals"],
}
"""The skills that a data part calls."""

CALLER: Final = "threadkeep_caller"
"""The state of a call that holds the program that makes it."""

CALL: Final[ContextVar[ServerCallContext]] = ContextVar("call")
"""The call that this process works for: the SDK sends notifications of a task without saying for whom."""


def get_caller(context: ServerCallContext, *scopes: str) -> Caller:
    """Return the program that makes a call, which needs *scopes*."""
    caller: Caller = context.state[CALLER]
    for scope in scopes:
        caller.principal.require(scope)
    return caller


def read_message(message: Message) -> tuple[str | None, Any]:
    """Return the skill that *message* calls, with its arguments; ``None``, with the text of a turn, or with an answer.

    Raises:
        A2AError: It holds bytes or addresses, is empty, too long, no JSON, or mixes texts and data.
    """
    if any(len(one) > ID_CHARACTERS or "\x00" in one for one in (message.context_id, message.task_id)):
        msg = f"An id has at most {ID_CHARACTERS:,} characters, and no NUL."
        raise InvalidParamsError(msg)
    try:
        parts: Any = MessageToDict(message).get("parts")
    except SerializeToJsonError as error:  # data or metadata; their text would name what the SDK does with them
        raise InvalidParamsError("A message holds JSON: its numbers are finite.") from error
    kinds = {part.WhichOneof("content") for part in message.parts}
    if kinds == {"text"}:
        text = "\n\n".join(part.text for part in message.parts)
        if not text.strip() or "\x00" in text or len(text) > MESSAGE_CHARACTERS:
            msg = f"The text must have 1 to {MESSAGE_CHARACTERS:,} characters, and no NUL."
            raise InvalidParamsError(msg)
        return None, text
    if kinds != {"data"}:
        raise ContentTypeNotSupportedError("A message holds text parts, or one data part; bytes and URLs are refused.")
    if len(message.parts) != 1:
        raise InvalidParamsError("A message holds one data part at most.")
    data: Any = parts[0]["data"]
    if message.task_id:
        return None, data
    name = as_object(data).get(SKILL)
    if not isinstance(name, str) or name not in SKILLS:
        msg = f"A data part names a skill: {', '.join(SKILLS)}."
        raise InvalidParamsError(msg)
    return name, as_object(data).get("arguments", {})


@contextmanager
def as_protocol_errors(note: Callable[[Exception], object] = lambda _: None) -> Generator[None]:
    """Raise what goes wrong inside as the protocol says it, with our code in its details, and *note* it before."""
    try:
        yield
    except A2AError:
        raise
    except Exception as error:
        note(error)
        shown = public_error(error)
        kind = InvalidParamsError if shown.status < TOO_MANY else InternalError
        raise kind(shown.detail, {"code": shown.code}) from error
