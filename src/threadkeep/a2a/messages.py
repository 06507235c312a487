"""What a message of another agent asks for: a skill, or a turn of the agent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InternalError, InvalidParamsError
from google.protobuf.json_format import MessageToDict

from threadkeep.gateway.bodies import ID_CHARACTERS, as_object
from threadkeep.gateway.operations import OPERATIONS, PROPOSE_FORGETTING, Caller, Operation
from threadkeep.gateway.problems import ProblemError
from threadkeep.gateway.public_errors import SERVER_ERROR, public_error
from threadkeep.gateway.routers.chat import MESSAGE_CHARACTERS

if TYPE_CHECKING:
    from a2a.server.context import ServerCallContext
    from a2a.types.a2a_pb2 import Message, Part

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


def get_caller(context: ServerCallContext) -> Caller:
    """Return the program that makes a call."""
    return context.state[CALLER]


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A call of a skill, with the arguments as the client gave them."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """A turn of the agent, or the answer to what it asked.

    Attributes:
        text: What is said.
        answer: What is answered, if a task waits for an answer.
    """

    text: str
    answer: Any


Asked: TypeAlias = SkillCall | AgentTurn


def read_message(message: Message) -> Asked:
    """Return what *message* asks for.

    Raises:
        A2AError: It holds bytes or addresses, is empty, too long, or mixes texts and data.
    """
    if any(len(one) > ID_CHARACTERS or "\x00" in one for one in (message.context_id, message.task_id)):
        msg = f"An id has at most {ID_CHARACTERS:,} characters, and no NUL."
        raise InvalidParamsError(msg)
    kinds = {part.WhichOneof("content") for part in message.parts}
    if kinds == {"text"}:
        text = "\n\n".join(part.text for part in message.parts)
        if not text.strip() or "\x00" in text or len(text) > MESSAGE_CHARACTERS:
            msg = f"The text must have 1 to {MESSAGE_CHARACTERS:,} characters, and no NUL."
            raise InvalidParamsError(msg)
        return AgentTurn(text, text)
    if kinds != {"data"}:
        raise ContentTypeNotSupportedError("A message holds text parts, or one data part; bytes and URLs are refused.")
    if len(message.parts) != 1:
        raise InvalidParamsError("A message holds one data part at most.")
    return _read_data(message.parts[0], answers=bool(message.task_id))


def _read_data(part: Part, *, answers: bool) -> Asked:
    data: Any = MessageToDict(part.data)
    if answers:
        return AgentTurn("", data)
    name = as_object(data).get(SKILL)
    if not isinstance(name, str) or name not in SKILLS:
        msg = f"A data part names a skill: {', '.join(SKILLS)}."
        raise InvalidParamsError(msg)
    return SkillCall(name, as_object(data).get("arguments", {}))


@contextmanager
def as_protocol_errors(note: Callable[[Exception], object] | None = None) -> Generator[None]:
    """Raise what goes wrong inside as the protocol says it, after *note* was called with it."""
    try:
        yield
    except Exception as error:
        if note is not None:
            note(error)
        raise _protocol_error(error) from error


def _protocol_error(error: Exception) -> A2AError:
    """Return *error* as the protocol says it: a sentence, and our code in its details."""
    if isinstance(error, A2AError):
        return error
    if isinstance(error, ProblemError):
        return InternalError(str(error), {"code": error.code})
    shown = public_error(error)
    kind = InvalidParamsError if shown.status < SERVER_ERROR else InternalError
    return kind(shown.detail, {"code": shown.code})
