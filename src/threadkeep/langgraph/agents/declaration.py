"""What a file of sub-agents declares: read and checked; nothing is started and no variable is looked at."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from threadkeep.errors import SettingsError
from threadkeep.text.redaction import has_secret

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
        interrupt_on: Those of them that wait for somebody's decision.
        command: What starts its server, which then speaks over stdin and stdout; or
        url: Where its server answers.
        headers: Sent with every request to *url*.
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
        if self.command and self.headers:
            msg = "headers belong to a url; a command is handed variables by environment"
            raise ValueError(msg)
        if self.url is not None and self.environment:
            msg = "environment belongs to a command"
            raise ValueError(msg)
        unknown = [tool for tool in self.interrupt_on if tool not in self.tools]
        if unknown:
            msg = f"interrupt_on names {unknown[0]!r}, which is none of its tools"
            raise ValueError(msg)
        if self.url is not None and not REFERENCE.search(self.url):
            require_private(self.url)
        return self

    @model_validator(mode="after")
    def _holds_no_credential(self) -> Self:
        for header, value in self.headers.items():
            if _CREDENTIAL_HEADER.search(header) and not REFERENCE.search(value):
                msg = f"the header {header} holds a credential; name an environment variable there, as ${{NAME}}"
                raise ValueError(msg)
        if any(has_secret(text) for text in (*self.command, self.url or "", *self.headers.values(), self.prompt)):
            msg = "it holds a secret; name an environment variable in its place, as ${NAME}"
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
        return f"ENABLE_{_as_variable(self.name)}"


def require_private(url: str) -> None:
    """Let *url* pass only where nobody between can read what is sent: https, or this very machine.

    Raises:
        ValueError: It is neither, or no URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return
    msg = "its url has to begin with https:// (http:// on this machine only)"
    raise ValueError(msg)


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
        msg = f"{path} is no TOML file ({error})."
        raise SettingsError(msg, variable=VARIABLE) from None
    return declared(document, origin=str(path))


def declared(document: Mapping[str, Any], *, origin: str) -> tuple[Declaration, ...]:
    """Return what *document*, a table for each agent, declares.

    Raises:
        SettingsError: As :func:`read`.
    """
    found: list[Declaration] = []
    for name, table in document.items():
        if _as_variable(name) in DEFAULT_REGISTRY_EXCLUSIONS:
            continue
        if not _NAME.fullmatch(name):
            msg = f"{origin}: an agent's name is made of a-z, 0-9, _ and -, not {name[:40]!r}."
            raise SettingsError(msg, variable=VARIABLE)
        if not isinstance(table, dict):
            msg = f"{origin}: {name} stands outside of every agent's table; write [{name}] for an agent."
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


def _as_variable(name: str) -> str:
    return name.upper().replace("-", "_")
