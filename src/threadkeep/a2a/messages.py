"""What a message of another agent asks for: a skill, or a turn of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InternalError, InvalidParamsError
from google.protobuf.json_format import MessageToDict
from pydantic import Field

from threadkeep import Source
from threadkeep.gateway.bodies import ID_CHARACTERS, Comment, KeptBody
from threadkeep.gateway.operations import (
    OPERATIONS,
    Caller,
    MemoryArguments,
    Operation,
    proposed_body,
)
from threadkeep.gateway.public_errors import SERVER_ERROR, public_error
from threadkeep.gateway.routers.chat import MESSAGE_CHARACTERS

if TYPE_CHECKING:
    from a2a.types.a2a_pb2 import Message, Part

SKILL: Final = "skill"
"""The field of a data part that names the skill; ``arguments`` has what it takes."""


class ForgetArguments(MemoryArguments):
    """Which memory to forget.

    Attributes:
        reason: Why, for the person who decides.
    """

    reason: Annotated[Comment, Field(description="Why, for the person who decides.")] = ""


async def _propose_forgetting(caller: Caller, given: ForgetArguments) -> KeptBody:
    source = Source(caller.speaker)
    return proposed_body(
        await caller.tk.proposals.propose(
            action="forget", memory_id=given.memory_id, source=source, reason=given.reason
        )
    )


_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
SKILLS: Final[Mapping[str, Operation]] = {
    "recall": _BY_NAME["search_memory"],
    "remember": _BY_NAME["remember"],
    "why": _BY_NAME["why"],
    "forget": Operation(
        "forget",
        "Propose to forget a memory",
        "Propose to remove a memory for good. The user decides.",
        "memory:write",
        ForgetArguments,
        _propose_forgetting,
        KeptBody,
        changes=True,
    ),
    "proposals": _BY_NAME["list_proposals"],
}
"""The skills that a data part calls."""


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A call of a skill.

    Attributes:
        name: The skill.
        arguments: What it is given.
    """

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the agent, or the answer to what it asked.

    Attributes:
        text: What is said.
        answer: What is answered, if a task waits for an answer.
    """

    text: str
    answer: Any


Asked: TypeAlias = SkillCall | Turn


def read_message(message: Message) -> Asked:
    """Return what *message* asks for.

    Raises:
        A2AError: It holds bytes or addresses, is empty, too long, or mixes texts and data.
    """
    if len(message.context_id) > ID_CHARACTERS or len(message.task_id) > ID_CHARACTERS:
        msg = f"An id has at most {ID_CHARACTERS:,} characters."
        raise InvalidParamsError(msg)
    kinds = {part.WhichOneof("content") for part in message.parts}
    if kinds == {"text"}:
        text = "\n\n".join(part.text for part in message.parts)
        if not text.strip() or "\x00" in text or len(text) > MESSAGE_CHARACTERS:
            msg = f"The text must have 1 to {MESSAGE_CHARACTERS:,} characters, and no NUL."
            raise InvalidParamsError(msg)
        return Turn(text, text)
    if kinds != {"data"}:
        raise ContentTypeNotSupportedError("A message holds text parts, or one data part; bytes and URLs are refused.")
    if len(message.parts) != 1:
        raise InvalidParamsError("A message holds one data part at most.")
    return _read_data(message.parts[0], answers=bool(message.task_id))


def _read_data(part: Part, *, answers: bool) -> Asked:
    data: Any = MessageToDict(part.data)
    if answers:
        return Turn("", data)
    name = cast("Mapping[str, Any]", data).get(SKILL) if isinstance(data, Mapping) else None
    if not isinstance(name, str) or name not in SKILLS:
        msg = f"A data part names a skill: {', '.join(SKILLS)}."
        raise InvalidParamsError(msg)
    return SkillCall(name, cast("Mapping[str, Any]", data).get("arguments", {}))


def protocol_error(error: Exception) -> A2AError:
    """Return *error* as the protocol says it: a sentence, and our code in its details."""
    if isinstance(error, A2AError):
        return error
    shown = public_error(error)
    kind = InvalidParamsError if shown.status < SERVER_ERROR else InternalError
    return kind(shown.detail, {"code": shown.code})
