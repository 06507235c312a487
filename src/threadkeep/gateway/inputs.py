"""Parts that routes share: ids, pages, revisions in headers, and the user with what they may reach."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, cast

from fastapi import Depends, Header, Path, Query, Request, Response
from pydantic import AfterValidator

from threadkeep.client import Threadkeep
from threadkeep.errors import InvalidInputError
from threadkeep.gateway.auth import require, require_turn
from threadkeep.gateway.bodies import ID_CHARACTERS
from threadkeep.gateway.events import EventStreamResponse
from threadkeep.gateway.principals import Principal
from threadkeep.gateway.public_errors import ProblemError
from threadkeep.gateway.run_models import AnyRun, RunElsewhere

if TYPE_CHECKING:
    from threadkeep.gateway.app import Gateway
    from threadkeep.gateway.pagination import RowPage
    from threadkeep.gateway.runs import RunRegistry

T = TypeVar("T")

_ETAG: Final = re.compile(r'"(\d{1,18})"', re.ASCII)


def restore_slashes(text: str) -> str:
    """Return an id as it stands in the path: ``RequestLimits`` marks its slashes by NUL, which no path has."""
    return text.replace("\x00", "/")


ThreadPath = Annotated[str, Path(min_length=1, max_length=ID_CHARACTERS), AfterValidator(restore_slashes)]
RunPath = Annotated[str, Path(min_length=1, max_length=6_000), AfterValidator(restore_slashes)]
LastEventId = Annotated[str, Header(max_length=7_000)]
"""The event that the client has read last."""

ItemId = Annotated[str, Path(min_length=1, max_length=ID_CHARACTERS), AfterValidator(restore_slashes)]
"""An id in the address."""

Limit = Annotated[int, Query(ge=1, le=100)]
"""How many rows a page has."""

Cursor = Annotated[str | None, Query(max_length=12_000)]
"""The cursor of the page before."""

IfMatch = Annotated[str | None, Header(max_length=100)]
"""The revision that the client read, as an ETag."""

OwnerClient: TypeAlias = Threadkeep
"""The client that is locked to the user of a request."""


class GatewayUser:
    """The user of a request, with what of the gateway they may reach.

    Args:
        gateway: What the routes share.
        principal: The user.

    Attributes:
        principal: The user.
        owner: Their owner.
        tk: The client that is locked to them.
    """

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self.principal = principal
        self.owner = principal.owner
        self.tk: OwnerClient = gateway.tk.for_owner(principal.owner)
        self._cursors = gateway.cursors

    def approver(self, *, approved: bool) -> str | None:
        """Return who approves a statement: the user, if the request says so.

        Raises:
            ScopeRequiredError: The user may not approve.
        """
        if not approved:
            return None
        self.principal.require("memory:review")
        return self.principal.subject

    async def page(
        self, rows: Callable[..., Awaitable[RowPage[T]]], *bound: str, cursor: str | None, limit: int
    ) -> tuple[Iterable[T], str | None]:
        """Return one page of the user's rows; see :meth:`Cursors.page`."""
        return await self._cursors.page(rows, self.owner, *bound, cursor=cursor, limit=limit)


class ChatUser(GatewayUser):
    """A user who talks to the agent; the scope is ``chat``.

    Attributes:
        graph: The graph that runs turns.
        runs: The runs of this process.
    """

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        super().__init__(gateway, principal)
        self.graph = gateway.graph
        self.runs: RunRegistry = gateway.runs

    def config(self, thread_id: str, **checkpoint: Any) -> Any:
        """Return the config that names a thread, at its newest checkpoint or the one that is given."""
        return self.runs.view.config(self.owner, thread_id=thread_id, **checkpoint)

    async def state(self, thread_id: str, *, subgraphs: bool = False, **checkpoint: Any) -> Any:
        """Return the state of a thread; see :meth:`config`."""
        return await self.graph.aget_state(self.config(thread_id, **checkpoint), subgraphs=subgraphs)

    async def find_checkpoint(self, thread_id: str, *, creates: bool = False, **checkpoint: Any) -> Any:
        """Return a checkpoint of a thread, as :meth:`config` names it; ``None``: the thread has none yet.

        The list of threads and the size of a thread are read only for one without a checkpoint.

        Raises:
            ThreadNotFoundError: There is no such thread, and the request does not create it.
            ProblemError: The thread has no such checkpoint.
        """
        stored = await self.graph.checkpointer.aget_tuple(self.config(thread_id, **checkpoint))
        if stored is None and not creates:
            await self.tk.threads.require(thread_id)
        if stored is None and checkpoint:
            raise checkpoint_not_found()
        return stored

    async def history(
        self,
        thread_id: str,
        *,
        limit: int,
        before: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **checkpoint: Any,
    ) -> AsyncIterator[Any]:
        """Yield the states of a thread, newest first, or those older than the checkpoint *before*; see :meth:`config`.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """
        await self.find_checkpoint(thread_id)
        older = self.config(thread_id, **before) if before else None
        config = self.config(thread_id, **checkpoint)
        async for state in self.graph.aget_state_history(config, filter=metadata, before=older, limit=limit):
            yield state

    def follow(
        self,
        run: AnyRun,
        after: int = 0,
        *,
        reset: Callable[[int], Awaitable[bytes]] | None = None,
        waits: bool = False,
        through: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] | None = None,
        cancels: bool = False,
        **response: Any,
    ) -> EventStreamResponse:
        """Return the response that sends the events of *run* behind number *after*.

        Args:
            run: The run.
            after: The number.
            reset: See :meth:`RunRegistry.follow`.
            waits: See :meth:`RunRegistry.follow`.
            through: Changes what is sent; ``None``: nothing does.
            cancels: Whether a client that leaves stops the run.
            response: Further arguments of the response.
        """
        runs, events = self.runs, self.runs.follow(run, after, reset=reset, waits=waits)
        chunks = events if through is None else through(events)
        if isinstance(run, RunElsewhere):
            return EventStreamResponse(chunks, lambda _: None, **response)
        runs.enter(run)
        return EventStreamResponse(chunks, lambda left: runs.leave(run, cancels=left and cancels), **response)

    def running_threads(self) -> frozenset[str]:
        """Return the threads with a run in progress in this process."""
        return self.runs.running_threads(self.owner)


def _with_scope(scope: str) -> Callable[[Request], Awaitable[GatewayUser]]:
    async def user(request: Request) -> GatewayUser:
        return GatewayUser(request.app.state.gateway, await require(scope)(request))

    return user


async def _chat_user(request: Request) -> ChatUser:
    return ChatUser(request.app.state.gateway, await require("chat")(request))


async def _starter(request: Request) -> ChatUser:
    return ChatUser(request.app.state.gateway, await require_turn(request))


Reader = Annotated[GatewayUser, Depends(_with_scope("memory:read"))]
Writer = Annotated[GatewayUser, Depends(_with_scope("memory:write"))]
Reviewer = Annotated[GatewayUser, Depends(_with_scope("memory:review"))]
User = Annotated[ChatUser, Depends(_chat_user)]
Starter = Annotated[ChatUser, Depends(_starter)]
"""The user of a request that begins a turn."""


def set_etag(response: Response, revision: int) -> None:
    """Put *revision* into the response."""
    response.headers["ETag"] = f'"{revision}"'


def expected_revision(if_match: str | None) -> int:
    """Return the revision of the header ``If-Match``.

    Raises:
        ProblemError: The header is missing, is ``*``, or names no revision.
    """
    if if_match is None:
        detail = "The request needs If-Match with the ETag that was read."
        raise ProblemError(428, "precondition_required", detail)
    if if_match.strip() == "*":  # it would match any revision, so a change that was not read would be overwritten
        detail = "If-Match: * names no revision; pass the ETag that was read."
        raise ProblemError(428, "precondition_required", detail)
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise changed_since()
    return int(found[1])


def changed_since() -> ProblemError:
    """Return the answer to a revision that is not the current one."""
    return ProblemError(412, "revision_conflict", "The memory was changed since it was read; read it again.")


def checkpoint_not_found() -> ProblemError:
    """Return the answer to a checkpoint that the thread does not have."""
    return ProblemError(404, "checkpoint_not_found", "There is no checkpoint with this id.")


def parse_where(text: str | None, *, name: str = "where") -> dict[str, Any] | None:
    """Parse a filter.

    Raises:
        InvalidInputError: It is not a JSON object.
    """
    try:
        value: Any = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if value is None or isinstance(value, dict):
        return cast("dict[str, Any] | None", value)
    msg = f'{name} must be a JSON object, such as {{"team": "ops"}}.'
    raise InvalidInputError(msg)
