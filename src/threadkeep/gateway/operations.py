"""What programs that act for a user do with their memory: the tools of MCP and the skills of A2A.

The statement of a program is never the user's own word: it is proposed, unless the user confirms it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from threadkeep import Source
from threadkeep.errors import InvalidInputError
from threadkeep.gateway.bodies import (
    ID_CHARACTERS,
    MESSAGE_CHARACTERS,
    Comment,
    DecidedBody,
    ForgottenBody,
    FoundMemoriesBody,
    KeptBody,
    Kind,
    MemoryBody,
    ProposalBody,
    RequestBody,
    State,
    Statement,
    WhyBody,
    decided_body,
    forgotten_body,
    found_body,
    kept_body,
    memory_body,
    proposal_body,
    refuse_nul,
    why_body,
)
from threadkeep.gateway.validation import invalid_fields

if TYPE_CHECKING:
    from threadkeep import Proposal, Proposed
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.principals import Principal

Arguments = TypeVar("Arguments", bound=BaseModel)
Confirm: TypeAlias = Callable[["Proposal"], Awaitable[bool | None]]
"""Asks the user whether a change is right; ``None``: the user did not say."""

_Id = Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS), AfterValidator(refuse_nul)]
_PLACES: Final = 5
_Limit = Annotated[int, Field(ge=1, le=100)]


@dataclass(frozen=True, slots=True)
class Caller:
    """The program that acts for a user.

    Attributes:
        tk: The client that is locked to the owner.
        principal: Who the program acts for, and what it may do.
        speaker: The source of the statements of the program.
        confirm: Asks the user; ``None``: the user cannot be asked.
    """

    tk: Threadkeep
    principal: Principal
    speaker: Literal["assistant", "agent"]
    confirm: Confirm | None = None


class SearchArguments(RequestBody):
    """What to search for.

    Attributes:
        query: A question or some words.
        limit: How many memories to return.
        kind: Only memories of this kind.
    """

    query: Annotated[
        str, Field(min_length=1, max_length=2_000, description="A question or some words."), AfterValidator(refuse_nul)
    ]
    limit: _Limit = 10
    kind: Kind | None = None


class ListArguments(RequestBody):
    """Which memories to list.

    Attributes:
        limit: How many.
        offset: How many to leave out, from the most recent.
        kind: Only memories of this kind.
    """

    limit: _Limit = 20
    offset: Annotated[int, Field(ge=0, le=100_000)] = 0
    kind: Kind | None = None


class MemoryArguments(RequestBody):
    """Which memory.

    Attributes:
        memory_id: Its id.
    """

    memory_id: _Id


class QuestionArguments(RequestBody):
    """What the prompt of MCP is for.

    Attributes:
        question: The question.
    """

    question: Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARACTERS), AfterValidator(refuse_nul)]


class RememberArguments(RequestBody):
    """What to remember.

    Attributes:
        text: One statement.
        kind: Which kind it is.
    """

    text: Annotated[Statement, Field(description="One short statement about the user, in the user's own words.")]
    kind: Kind = "semantic"


class CorrectArguments(MemoryArguments):
    """What a memory says instead.

    Attributes:
        text: The statement.
    """

    text: Annotated[Statement, Field(description="What is true instead.")]


class ProposeArguments(RequestBody):
    """A change for the user to decide on.

    Attributes:
        action: What to do.
        text: The statement; none to forget.
        memory_id: The memory to correct or forget.
        kind: The kind of the memory.
        reason: Why, for the person who decides.
    """

    action: Literal["add", "correct", "forget"] = "add"
    text: Statement | None = None
    memory_id: _Id | None = None
    kind: Kind = "semantic"
    reason: Comment = ""


class ListProposalsArguments(RequestBody):
    """Which proposals to list.

    Attributes:
        state: In which state they are.
        limit: How many.
    """

    state: State | Literal["all"] = "pending"
    limit: _Limit = 20


class DecideArguments(RequestBody):
    """A decision of the user.

    Attributes:
        proposal_id: The proposal.
        approve: Whether the change is made.
        text: What is approved instead of what was proposed.
        comment: Kept with the decision.
    """

    proposal_id: _Id
    approve: bool
    text: Statement | None = None
    comment: Comment | None = None


class ListedBody(BaseModel):
    """Memories, most recently changed first.

    Attributes:
        memories: The memories.
    """

    memories: list[MemoryBody]


class ListedProposalsBody(BaseModel):
    """Proposals, newest first.

    Attributes:
        proposals: The proposals.
    """

    proposals: list[ProposalBody]


async def _search(caller: Caller, given: SearchArguments) -> FoundMemoriesBody:
    return found_body(await caller.tk.memories.search(given.query, kind=given.kind, limit=given.limit))


async def _list(caller: Caller, given: ListArguments) -> ListedBody:
    memories = await caller.tk.memories.list(kind=given.kind, limit=given.limit, offset=given.offset)
    return ListedBody(memories=[memory_body(one) for one in memories])


async def _why(caller: Caller, given: MemoryArguments) -> WhyBody:
    return why_body(await caller.tk.memories.why(given.memory_id))


async def _remember(caller: Caller, given: RememberArguments) -> KeptBody:
    result = await caller.tk.memories.remember(given.text, kind=given.kind, source=Source(caller.speaker))
    if result.proposal_id is None:
        return kept_body(result)
    return await _confirmed(caller, await caller.tk.proposals.require(result.proposal_id))


async def _correct(caller: Caller, given: CorrectArguments) -> KeptBody:
    source = Source(caller.speaker)
    proposed = await caller.tk.proposals.propose(given.text, action="correct", memory_id=given.memory_id, source=source)
    if proposed.status != "proposed" or proposed.proposal is None:
        return _proposed_body(proposed)
    return await _confirmed(caller, proposed.proposal)


async def _forget(caller: Caller, given: MemoryArguments) -> ForgottenBody:
    return forgotten_body(await caller.tk.memories.forget(given.memory_id))


async def _propose(caller: Caller, given: ProposeArguments) -> KeptBody:
    if given.text is None and given.action != "forget":
        msg = "text is missing: pass the statement to add, or what the memory says instead."
        raise InvalidInputError(msg)
    proposed = await caller.tk.proposals.propose(
        given.text or "",
        action=given.action,
        kind=given.kind,
        memory_id=given.memory_id,
        source=Source(caller.speaker),
        reason=given.reason,
    )
    return _proposed_body(proposed)


async def _propose_forgetting(caller: Caller, given: MemoryArguments) -> KeptBody:
    source = Source(caller.speaker)
    return _proposed_body(await caller.tk.proposals.propose(action="forget", memory_id=given.memory_id, source=source))


async def _list_proposals(caller: Caller, given: ListProposalsArguments) -> ListedProposalsBody:
    state = None if given.state == "all" else given.state
    proposals = await caller.tk.proposals.list(state=state, limit=given.limit)
    return ListedProposalsBody(proposals=[proposal_body(one) for one in proposals])


async def _decide(caller: Caller, given: DecideArguments) -> DecidedBody:
    proposals, by, comment = caller.tk.proposals, caller.principal.subject, given.comment
    if not given.approve:
        decided = await proposals.reject(given.proposal_id, by=by, comment=comment)
    elif given.text is not None:
        decided = await proposals.edit(given.proposal_id, given.text, by=by, comment=comment)
    else:
        decided = await proposals.approve(given.proposal_id, by=by, comment=comment)
    return decided_body(given.proposal_id, decided)


async def _confirmed(caller: Caller, proposal: Proposal) -> KeptBody:
    """Ask the user about *proposal*, if they can be asked, and do what they say."""
    agreed = None if caller.confirm is None else await caller.confirm(proposal)
    waiting = KeptBody(status="proposed", memory_id=None, proposal_id=proposal.proposal_id)
    if agreed is None:
        return waiting
    by = caller.principal.subject
    if not agreed:
        await caller.tk.proposals.reject(proposal.proposal_id, by=by)
        return waiting.model_copy(update={"status": "rejected"})
    approved = await caller.tk.proposals.approve(proposal.proposal_id, by=by)
    memory_id = approved.decision.memory_id if approved.decision else None
    return KeptBody(status="accepted", memory_id=memory_id, proposal_id=proposal.proposal_id)


def _proposed_body(proposed: Proposed) -> KeptBody:
    """Return what became of a proposal; a policy may have approved it at once."""
    status = "accepted" if proposed.status == "approved" else proposed.status
    kept = status in ("accepted", "duplicate")
    proposal_id = proposed.proposal.proposal_id if proposed.proposal else None
    return KeptBody(status=status, memory_id=proposed.memory_id if kept else None, proposal_id=proposal_id)


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a program does with the memory of a user.

    Attributes:
        name: Its name.
        title: Its name for people.
        description: What it does, for models.
        scope: What the program needs.
        arguments: What it takes.
        run: Does it; the second argument is an instance of *arguments*.
        result: What it returns.
        changes: Whether it changes something.
        destroys: Whether it removes something.
    """

    name: str
    title: str
    description: str
    scope: str
    arguments: type[BaseModel]
    run: Callable[[Caller, Any], Awaitable[BaseModel]]
    result: type[BaseModel]
    changes: bool = False
    destroys: bool = False

    @property
    def argument_schema(self) -> dict[str, Any]:
        """The JSON schema of what it takes. Do not change it: it is shared."""
        return _schema_of(self.arguments, "validation")

    @property
    def result_schema(self) -> dict[str, Any]:
        """The JSON schema of what it returns. Do not change it: it is shared."""
        return _schema_of(self.result, "serialization")

    async def call(self, caller: Caller, arguments: object) -> BaseModel:
        """Check the scope and the arguments, and run.

        Args:
            caller: The program.
            arguments: What it gives, as JSON.

        Raises:
            ScopeRequiredError: The program lacks the scope.
            InvalidInputError: The arguments are invalid; the message names the places and no values.
            ThreadkeepError: What the operation raises.
        """
        caller.principal.require(self.scope)
        return await self.run(caller, parse_arguments(self.arguments, arguments))


_OPERATIONS: Final = (
    Operation(
        "search_memory",
        "Search memory",
        "Search what is remembered about the user, best match first. Call it before you answer a question about them.",
        "memory:read",
        SearchArguments,
        _search,
        FoundMemoriesBody,
    ),
    Operation(
        "list_memories",
        "List memories",
        "List what is remembered about the user, most recently changed first.",
        "memory:read",
        ListArguments,
        _list,
        ListedBody,
    ),
    Operation(
        "why",
        "Explain a memory",
        "Show where a memory comes from: who said it, when, in which thread, and who approved it.",
        "memory:read",
        MemoryArguments,
        _why,
        WhyBody,
    ),
    Operation(
        "remember",
        "Remember",
        "Keep one short statement about the user. It waits for the user's approval unless they confirm it now.",
        "memory:write",
        RememberArguments,
        _remember,
        KeptBody,
        changes=True,
    ),
    Operation(
        "correct_memory",
        "Correct a memory",
        "Replace what a memory says, if the user says that it is wrong. It waits for the user's approval unless they "
        "confirm it now; the old text stays in the memory's history.",
        "memory:write",
        CorrectArguments,
        _correct,
        KeptBody,
        changes=True,
    ),
    Operation(
        "forget_memory",
        "Forget a memory",
        "Remove a memory with its history for good, if the user asks for it. It is not learnt again.",
        "memory:write",
        MemoryArguments,
        _forget,
        ForgottenBody,
        changes=True,
        destroys=True,
    ),
    Operation(
        "propose_memory_update",
        "Propose a change of memory",
        "Propose to add a statement, or to correct or forget a memory. The user decides later.",
        "memory:write",
        ProposeArguments,
        _propose,
        KeptBody,
        changes=True,
    ),
    Operation(
        "list_proposals",
        "List proposals",
        "List the changes of memory that wait for the user's decision, newest first.",
        "memory:read",
        ListProposalsArguments,
        _list_proposals,
        ListedProposalsBody,
    ),
    Operation(
        "decide_proposal",
        "Decide on a proposal",
        "Approve or reject a proposal as the user has decided. Never decide for the user.",
        "memory:review",
        DecideArguments,
        _decide,
        DecidedBody,
        changes=True,
    ),
)

OPERATIONS: Final[Mapping[str, Operation]] = {operation.name: operation for operation in _OPERATIONS}
"""What programs do with the memory of a user, by name."""

PROPOSE_FORGETTING: Final = Operation(
    "propose_forgetting",
    "Propose to forget a memory",
    "Propose to remove a memory for good. The user decides.",
    "memory:write",
    MemoryArguments,
    _propose_forgetting,
    KeptBody,
    changes=True,
)
"""What a program does that may not remove a memory itself."""


def parse_arguments(model: type[Arguments], arguments: object) -> Arguments:
    """Return *arguments* as an instance of *model*.

    Raises:
        InvalidInputError: They are invalid; the message names the places and no values.
    """
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        fields = invalid_fields(error.errors(include_url=False), arguments, root="The value of arguments")[:_PLACES]
        msg = f"The arguments are invalid: {' '.join(field.message for field in fields)}"
        raise InvalidInputError(msg) from error


@cache
def _schema_of(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """Return the JSON schema of *model*; of a description, the first sentence stays."""
    schema = model.model_json_schema(mode=mode)
    for part in (schema, *schema.get("$defs", {}).values()):
        part["description"] = part["description"].partition("\n")[0]
    return schema
