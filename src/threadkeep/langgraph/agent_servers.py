"""The MCP servers of sub-agents: reached with the credentials that the environment holds, and survived when they fail.

Each tool call is a session of its own, on the event loop: nothing has to be closed, a server that was started anew is
used at once, and tools work from sync code, too.
"""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from threadkeep.credentials.models import require_private
from threadkeep.errors import AgentUnavailableError, CredentialRequiredError, SettingsError, optional_import
from threadkeep.observability import AGENT_NAME, OPERATION, TOOL, TOOL_NAME, log, span
from threadkeep.settings import named_variables
from threadkeep.text.redaction import has_secret

if TYPE_CHECKING:
    import httpx
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_mcp_adapters.sessions import Connection
    from mcp.types import CallToolResult, ContentBlock

    from threadkeep.container import Container


_OFF: Final = ("false", "0", "no", "off")
_REFUSED: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """Whether a declared agent can be used.

    Attributes:
        declaration: What was declared.
        tools: Those that it is given; none where it cannot be used.
        reason: Why it cannot be used, in words that name what to do; empty where it can.
        off: Whether a setting switched it off.
    """

    declaration: Declaration
    tools: tuple[BaseTool, ...] = ()
    reason: str = ""
    off: bool = False

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.declaration.name

    @property
    def ready(self) -> bool:
        """Whether it can be used."""
        return not self.reason


def absent_text(statuses: Sequence[AgentStatus]) -> str:
    """Return the prompt text about agents that cannot be used; empty: all of them can."""
    names = [one.name for one in statuses if not one.ready]
    return f"\n\nNot connected now: {', '.join(names)}. Where one of them is needed, say so." if names else ""


async def check_agent(
    declaration: Declaration, app: Container, authenticate: Callable[[str], httpx.Auth] | None
) -> AgentStatus:
    """Ask the server of *declaration* for its tools; whatever fails is the standing's reason.

    Args:
        declaration: The agent.
        app: The memory.
        authenticate: Returns what authenticates one user at the server of a URL; ``None``: the memory is of many users.
    """
    try:
        connection = connection_of(declaration, authenticate)
        tools = await app.event_loop.run(_tools(declaration, connection, app))
    except AgentUnavailableError as error:
        return AgentStatus(declaration, reason=str(error), off=bool(error.details.get("off")))
    return AgentStatus(declaration, tuple(tools))


def connection_of(declaration: Declaration, authenticate: Callable[[str], httpx.Auth] | None) -> Connection:
    """Return how the server of *declaration* is reached, its variables filled in.

    Raises:
        AgentUnavailableError: It is switched off, a variable is not set or cannot be used, or it needs a user's
            credential and *authenticate* is None.
    """
    required = declaration.variables
    found = named_variables((declaration.switch, *required, *declaration.requires_any, *declaration.environment))
    values = {name: value.get_secret_value() for name, value in found.items()}
    if values.get(declaration.switch, "").strip().lower() in _OFF:
        msg = f"{declaration.switch} is {values[declaration.switch].strip()[:10]}."
        raise AgentUnavailableError(msg, agent=declaration.name, off=True)
    if unset := [name for name in required if name not in values]:
        them = "is not set; set it" if len(unset) == 1 else "are not set; set them"
        msg = f"{_listed(unset, 'and')} {them} to use the agent."
        raise AgentUnavailableError(msg, agent=declaration.name, variables=tuple(unset))
    if declaration.requires_any and not any(name in values for name in declaration.requires_any):
        msg = f"None of {_listed(declaration.requires_any, 'or')} is set."
        raise AgentUnavailableError(msg, agent=declaration.name, variables=declaration.requires_any)
    if strange := [name for name in (*required, *declaration.environment) if "${" in values.get(name, "")]:
        # The adapter fills in what looks like a reference once more, and logs what it cannot fill in.
        msg = f"{strange[0]} has ${{ in its value, which cannot be passed on; set it to a value without that."
        raise AgentUnavailableError(msg, agent=declaration.name, variables=tuple(strange))
    if declaration.oauth and authenticate is None:
        msg = "It works with the credential of one user; compile it with tk.for_owner(user).agents."
        raise AgentUnavailableError(msg, agent=declaration.name)
    connection = _connection(declaration, values)
    if declaration.oauth and authenticate is not None and connection["transport"] == "streamable_http":
        connection["auth"] = authenticate(connection["url"])
    return connection


def _connection(declaration: Declaration, values: Mapping[str, str]) -> Connection:
    patience = timedelta(seconds=declaration.timeout_seconds)
    session = {"read_timeout_seconds": patience}
    if declaration.url is None:
        command, *arguments = [_filled(part, values) for part in declaration.command]
        return {
            "transport": "stdio",
            "command": command,
            "args": arguments,
            "env": {name: values[name] for name in declaration.environment if name in values},
            "session_kwargs": session,
        }
    url = _filled(declaration.url, values)
    try:
        require_private(url)
    except ValueError as error:
        msg = f"{_listed(declaration.variables, 'or')}: {error}."
        raise AgentUnavailableError(msg, agent=declaration.name) from None
    return {
        "transport": "streamable_http",
        "url": url,
        "headers": {header: _filled(value, values) for header, value in declaration.headers.items()},
        "timeout": patience,
        "sse_read_timeout": patience,
        "session_kwargs": session,
    }


async def _tools(declaration: Declaration, connection: Connection, app: Container) -> list[BaseTool]:
    """Return the allowed tools that the server offers, in the order they are declared."""
    load = require_adapter()
    loading = load(
        None,
        connection=connection,
        server_name=declaration.name,
        tool_interceptors=[_Surviving(declaration, app)],
    )
    try:
        async with asyncio.timeout(declaration.timeout_seconds):
            offered = await loading
    except Exception as error:  # noqa: BLE001 - servers and transports fail in their own ways; the agent is left out
        # What they say may quote a credential, so it does not go on.
        leaf = _leaf(error)
        msg = str(leaf) if isinstance(leaf, CredentialRequiredError) else _why(declaration, connection, leaf)
        raise AgentUnavailableError(msg, agent=declaration.name) from None
    by_name = {tool.name: tool for tool in offered if tool.name in declaration.tools}
    if wordy := [name for name, tool in by_name.items() if not is_presentable(tool)]:
        log.warning(
            "The agent %s does not get the tool %s: its description and arguments are too large",
            declaration.name,
            _listed(wordy, "or"),
        )
        by_name = {name: tool for name, tool in by_name.items() if name not in wordy}
    if missing := [name for name in declaration.tools if name not in by_name]:
        log.warning("The server of the agent %s offers no tool %s", declaration.name, _listed(missing, "or"))
    found = [_callable_from_any_loop(by_name[name], app) for name in declaration.tools if name in by_name]
    if not found:
        msg = "Its server offers none of the tools that it is declared with."
        raise AgentUnavailableError(msg, agent=declaration.name)
    return found


@dataclass(frozen=True, slots=True)
class _Surviving:
    """Turns a server that fails in the middle of a run into a result that says so: the run goes on."""

    declaration: Declaration
    app: Container

    async def __call__(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        from mcp.types import CallToolResult, TextContent

        about = {OPERATION: TOOL, TOOL_NAME: str(request.name), AGENT_NAME: self.declaration.name}
        try:
            with span(f"{TOOL} {request.name}", about):
                result = await handler(request)
        except Exception as error:  # noqa: BLE001 - see _tools
            leaf = _leaf(error)
            self.app.telemetry.degraded(f"agents.{self.declaration.name}", leaf)
            said = (
                f"The user has to connect {self.declaration.name} again; nothing was done."
                if isinstance(leaf, CredentialRequiredError)
                else f"The server of {self.declaration.name} did not answer ({type(leaf).__name__}); "
                "nothing is known of it."
            )
            return CallToolResult(content=[TextContent(type="text", text=said)], isError=True)
        return bounded(result, self.declaration.max_characters) if isinstance(result, CallToolResult) else result


def _callable_from_any_loop(tool: BaseTool, app: Container) -> BaseTool:
    """Return *tool* so that it can be called from sync code and from any loop."""
    call = cast("Callable[..., Coroutine[Any, Any, Any]]", cast("StructuredTool", tool).coroutine)

    async def on_event_loop(**arguments: Any) -> Any:
        return await app.event_loop.run(call(**arguments))

    def blocking(**arguments: Any) -> Any:
        return app.event_loop.run_sync(call(**arguments))

    return tool.model_copy(update={"coroutine": on_event_loop, "func": blocking})


def _why(declaration: Declaration, connection: Connection, error: BaseException) -> str:
    if connection["transport"] == "stdio":
        place = f"Its command {connection['command']}"
        if isinstance(error, FileNotFoundError | PermissionError):
            return f"{place} is not installed here, or may not be run."
    else:
        parts = urlsplit(str(cast("dict[str, object]", connection)["url"]))
        place = f"Its server at {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in _REFUSED:
        named = f"; check {_listed(declaration.variables, 'and')}" if declaration.variables else ""
        return f"{place} refuses the credential ({status}){named}."
    if isinstance(error, TimeoutError):
        return f"{place} did not answer within {declaration.timeout_seconds:g} s."
    return f"{place} did not answer ({f'status {status}' if status else type(error).__name__})."


def _leaf(error: BaseException) -> BaseException:
    """Return what went wrong: task groups wrap it, often twice."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _filled(text: str, values: Mapping[str, str]) -> str:
    return REFERENCE.sub(lambda found: values[found[1]], text)


def _listed(names: Any, word: str) -> str:
    *some, last = names
    return f"{', '.join(some)} {word} {last}" if some else str(last)


def require_adapter() -> Callable[..., Coroutine[Any, Any, list[BaseTool]]]:
    """Return the function that lists the tools of an MCP server.

    Raises:
        SettingsError: ``threadkeep[agents]`` is not installed.
    """
    with optional_import("MCP servers of sub-agents", extra="agents", variable=VARIABLE):
        from langchain_mcp_adapters.tools import load_mcp_tools
    return load_mcp_tools


MAX_DESCRIPTION_CHARACTERS: Final = 50_000
"""Tools with longer descriptions and arguments are not used: the model would read them with every call."""


def is_presentable(tool: BaseTool) -> bool:
    """Whether a tool says no more of itself than a model can be given with each call."""
    return len(tool.description) + len(json.dumps(tool.args_schema, default=str)) <= MAX_DESCRIPTION_CHARACTERS


def bounded(result: CallToolResult, longest: int) -> CallToolResult:
    """Return *result* with its first *longest* characters, and a line that says so where there were more.

    Texts are cut; images and other data stay as they are or go. What a server adds for programs counts as well.
    """
    from mcp.types import TextContent

    whole = sum(map(_size, result.content))
    structured = result.structuredContent
    if structured is not None and len(json.dumps(structured)) > longest:
        structured = None
    if whole <= longest:
        return result.model_copy(update={"structuredContent": structured})
    left, kept = longest, list["ContentBlock"]()
    for block in result.content:
        if isinstance(block, TextContent):
            kept.append(block.model_copy(update={"text": block.text[:left]}))
        elif _size(block) <= left:
            kept.append(block)
        left = max(0, left - _size(block))
    said = f"[Cut: {whole:,} characters came, and no more than {longest:,} are handed on. Ask for less at a time.]"
    kept.append(TextContent(type="text", text=said))
    return result.model_copy(update={"content": kept, "structuredContent": structured})


def _size(block: Any) -> int:
    text = getattr(block, "text", None)
    return len(text) if isinstance(text, str) else len(block.model_dump_json())


SHIPPED: Final = Path(__file__).with_name("agents.toml")
"""The declarations that come with this package: GitHub, GitLab, Slack, AWS and Splunk."""

VARIABLE: Final = "THREADKEEP_AGENTS"

DEFAULT_REGISTRY_EXCLUSIONS: Final = frozenset({"FACT_EXTRACTION"})
"""What has an ``ENABLE_…`` switch as agents have, and is none."""

REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_CREDENTIAL_HEADER: Final = re.compile(r"authorization|cookie|token|secret|key", re.IGNORECASE)

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Declaration(BaseModel):
    """One sub-agent, as its table in the file says.

    Attributes:
        name: Its table's.
        description: By which the supervisor chooses it.
        prompt: Its system prompt.
        tools: The tools of its server that it is given; no other reaches the model.
        interrupt_on: Those of them that wait for a person's decision.
        command: What starts its server, which then speaks over stdin and stdout; or
        url: Where its server answers.
        headers: Sent with every request to *url*.
        oauth: Whether *url* is reached with the credential that the user gave by ``tk.credentials``.
        environment: Variables that are handed to *command* where they are set.
        requires_any: At least one of these variables has to be set.
        recall: Whether it is given what is remembered about the user.
        timeout_seconds: How long its server may take for an answer.
        max_characters: How much of an answer is handed on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: Text
    prompt: Text
    tools: tuple[Text, ...] = Field(min_length=1)
    interrupt_on: tuple[Text, ...] = ()
    command: tuple[str, ...] = ()
    url: Text | None = None
    headers: Mapping[str, str] = Field(default_factory=dict[str, str])
    oauth: bool = False
    environment: tuple[Variable, ...] = ()
    requires_any: tuple[Variable, ...] = ()
    recall: bool = True
    timeout_seconds: float = Field(default=30, gt=0, le=3600, allow_inf_nan=False)
    max_characters: int = Field(default=100_000, ge=1_000)

    @model_validator(mode="after")
    def _is_one_server(self) -> Self:
        if bool(self.command and self.command[0]) == (self.url is not None):
            msg = "it has either a command or a url"
            raise ValueError(msg)
        if self.oauth and (self.command or any(name.lower() == "authorization" for name in self.headers)):
            msg = "oauth needs a url, and no header Authorization"
            raise ValueError(msg)
        if self.command and self.headers:
            msg = "headers need a url; pass variables to a command by environment"
            raise ValueError(msg)
        if self.url is not None and self.environment:
            msg = "environment belongs to a command"
            raise ValueError(msg)
        unknown = [tool for tool in self.interrupt_on if tool not in self.tools]
        if unknown:
            msg = f"interrupt_on names {unknown[0]!r}, which is not one of its tools"
            raise ValueError(msg)
        if self.url is not None and not REFERENCE.search(self.url):
            require_private(self.url)
        return self

    @model_validator(mode="after")
    def _holds_no_credential(self) -> Self:
        for header, value in self.headers.items():
            if _CREDENTIAL_HEADER.search(header) and not REFERENCE.search(value):
                msg = f"the header {header} contains a credential; name an environment variable instead, as ${{NAME}}"
                raise ValueError(msg)
        if any(has_secret(text) for text in (*self.command, self.url or "", *self.headers.values(), self.prompt)):
            msg = "it contains a secret; name an environment variable instead, as ${NAME}"
            raise ValueError(msg)
        return self

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that have to be set, in the order they are named."""
        texts = (*self.command, self.url or "", *self.headers.values())
        return tuple(dict.fromkeys(name for text in texts for name in REFERENCE.findall(text)))

    @property
    def switch(self) -> str:
        """The variable that switches it off where it is false."""
        return f"ENABLE_{_to_variable(self.name)}"


def read(file: str | Path | None) -> tuple[Declaration, ...]:
    """Return what *file* declares, in its order, without what is no agent; ``None``: what this package ships.

    Raises:
        SettingsError: The file cannot be read, or says something else; one sentence that names the agent and the key.
    """
    path = SHIPPED if file is None else Path(file).expanduser()
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        msg = f"{path} cannot be read ({type(error).__name__}); {VARIABLE} names the file that declares sub-agents."
        raise SettingsError(msg, variable=VARIABLE) from error
    except ValueError as error:  # TOML's own errors, and bytes that are no UTF-8; neither quotes a value
        msg = f"{path} is not a valid TOML file ({error})."
        raise SettingsError(msg, variable=VARIABLE) from None
    return declared(document, origin=str(path))


def declared(document: Mapping[str, Any], *, origin: str) -> tuple[Declaration, ...]:
    """Return what *document*, a table for each agent, declares.

    Raises:
        SettingsError: As :func:`read`.
    """
    found: list[Declaration] = []
    for name, table in document.items():
        if _to_variable(name) in DEFAULT_REGISTRY_EXCLUSIONS:
            continue
        if not _NAME.fullmatch(name):
            msg = f"{origin}: an agent's name is made of a-z, 0-9, _ and -, not {name[:40]!r}."
            raise SettingsError(msg, variable=VARIABLE)
        if not isinstance(table, dict):
            msg = f"{origin}: {name} is outside of every agent's table; write [{name}] for an agent."
            raise SettingsError(msg, variable=VARIABLE)
        try:
            found.append(Declaration.model_validate({**cast("dict[str, Any]", table), "name": name}))
        except ValidationError as error:
            msg = f"{origin}: {name}: {_explained(error)}."
            raise SettingsError(msg, variable=VARIABLE) from None
    return tuple(found)


def _explained(error: ValidationError) -> str:
    """Return what is wrong, without what was given: it may be a credential."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    said = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {said}" if place else said


def _to_variable(name: str) -> str:
    return name.upper().replace("-", "_")
