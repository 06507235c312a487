"""The settings of the gateway."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from typing_extensions import override

from threadkeep.errors import SettingsError
from threadkeep.gateway.interfaces import INTERFACES
from threadkeep.gateway.principals import SCOPES
from threadkeep.settings import load_settings, with_secret_files

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"}
)
"""The asymmetric algorithms that tokens may be signed with."""

_ORIGIN: Final = re.compile(r"https://[^/?#@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.ASCII)

Words = Annotated[tuple[str, ...], NoDecode]
"""Words that are separated by white space or commas."""


class GatewaySettings(BaseSettings):
    """The settings of the gateway, in the order of the documentation."""

    model_config = SettingsConfigDict(env_prefix="THREADKEEP_", env_ignore_empty=True, extra="ignore")

    single_user: str | None = Field(
        default=None, description="User id of every request, without a token; only at a loopback address."
    )
    issuers: Words = Field(
        default=(), description="Issuers of tokens, as their claim iss names them, separated by commas."
    )
    audience: str | None = Field(
        default=None, description="What the claim aud of a token must name; required with issuers."
    )
    owner_claim: str = Field(default="sub", description="Claim of a token that names the user.")
    tenant_claim: str | None = Field(
        default=None, description="Claim that names a tenant of the issuer; unset: the issuer is the tenant."
    )
    token_algorithms: Words = Field(
        default=("RS256", "PS256", "ES256", "ES384", "Ed25519"),
        description="Algorithms that tokens may be signed with, asymmetric ones only, separated by commas.",
    )
    groups_claim: str = Field(default="groups", description="Claim of a token that names the groups of the user.")
    group_scopes: dict[str, list[str]] = Field(
        default={}, description='Scopes of groups, as JSON: {"staff": ["chat", "memory:read"]}.'
    )
    client_id: str | None = Field(
        default=None, description="Client at the first issuer, with which browsers log in; unset: they cannot."
    )
    client_secret: SecretStr | None = Field(default=None, description="Secret of that client, if it has one.")
    public_url: str | None = Field(
        default=None, description="Address of the gateway in browsers, such as https://memory.example."
    )
    max_requests_per_minute: int = Field(
        default=600, ge=1, description="How many requests of an owner a process answers in a minute, a whole number."
    )
    max_turns_per_minute: int = Field(
        default=60, ge=1, description="How many turns of an owner a process begins in a minute, a whole number."
    )
    max_turns_per_owner: int = Field(
        default=8, ge=1, description="How many turns of an owner are in progress in a process, a whole number."
    )
    max_runs: int = Field(
        default=64,
        ge=1,
        description="How many runs are in progress in a process, a whole number; as many wait for at most 10 seconds.",
    )
    drain_seconds: float = Field(
        default=10,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="How long runs in progress may go on after SIGTERM, in seconds, a number.",
    )
    interfaces: Words | None = Field(
        default=None, description="Interfaces that are on, of api, langgraph, a2a, mcp and web; unset: the installed."
    )
    push_notifications: bool = Field(
        default=False, description="true or false: whether A2A clients may name addresses that are told about tasks."
    )
    graph: str | None = Field(
        default=None, description="module:function of the graph; unset: the agent of threadkeep chat."
    )

    def can_name(self, tenant: str) -> bool:
        """Return whether a token of one of the issuers can name a user of *tenant*."""
        issuer, end, _ = tenant.partition("\n")
        return issuer in self.issuers and bool(end) == (self.tenant_claim is not None)

    @classmethod
    def load(cls) -> GatewaySettings:
        """Read the environment, and ``.env`` in the current directory, which the environment overrides.

        Raises:
            SettingsError: One sentence that names the variable.
        """
        return load_settings(cls)

    @classmethod
    @override
    def settings_customise_sources(cls, *args: Any, **sources: Any) -> tuple[Any, ...]:
        """Read a secret's value from the file that ``VARIABLE_FILE`` names, too."""
        return with_secret_files(super().settings_customise_sources(*args, **sources), cls)

    @field_validator("issuers", "token_algorithms", "interfaces", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(word for word in re.split(r"[\s,]+", value) if word) if isinstance(value, str) else value

    @field_validator("token_algorithms")
    @classmethod
    def _require_asymmetric(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(value) - ALGORITHMS)
        if unknown or not value:
            what = repr(unknown[0]) if unknown else "none"
            msg = f"THREADKEEP_TOKEN_ALGORITHMS names {what}; possible are {', '.join(sorted(ALGORITHMS))}."
            raise SettingsError(msg, variable="THREADKEEP_TOKEN_ALGORITHMS")
        return value

    @field_validator("interfaces")
    @classmethod
    def _require_interfaces(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if unknown := sorted(set(value or ()) - INTERFACES.keys()):
            msg = f"THREADKEEP_INTERFACES names {unknown[0]!r}; there are {', '.join(INTERFACES)}."
            raise SettingsError(msg, variable="THREADKEEP_INTERFACES")
        return value and tuple(dict.fromkeys(value))

    @field_validator("group_scopes")
    @classmethod
    def _require_scopes(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        if unknown := sorted({scope for scopes in value.values() for scope in scopes} - SCOPES):
            msg = f"THREADKEEP_GROUP_SCOPES names the scope {unknown[0]!r}; there are {', '.join(sorted(SCOPES))}."
            raise SettingsError(msg, variable="THREADKEEP_GROUP_SCOPES")
        return value

    @model_validator(mode="after")
    def _require_origin(self) -> Self:
        if self.client_id is not None and not (self.public_url and _ORIGIN.fullmatch(self.public_url)):
            msg = (
                "THREADKEEP_CLIENT_ID needs THREADKEEP_PUBLIC_URL: the address of the gateway in browsers, "
                f"such as https://memory.example, without a path; it is {self.public_url!r}."
            )
            raise SettingsError(msg, variable="THREADKEEP_PUBLIC_URL")
        return self
