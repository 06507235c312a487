"""The settings of the gateway."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from threadkeep.errors import SettingsError
from threadkeep.gateway.interfaces import INTERFACES
from threadkeep.gateway.principals import SCOPES

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"}
)
"""The asymmetric algorithms that tokens may be signed with."""

_ORIGIN: Final = re.compile(r"https://[^/?#@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.ASCII)

Words = Annotated[tuple[str, ...], NoDecode]
"""Words that are separated by white space or commas."""


class GatewaySettings(BaseSettings):
    """The settings of the gateway.

    Attributes:
        single_user: The user id of every request; then no token is needed.
        issuers: The issuers of tokens, as the claim ``iss`` names them.
        audience: What the claim ``aud`` of a token must name.
        owner_claim: The claim that names the user.
        tenant_claim: A claim that names a tenant of the issuer; ``None``: the issuer is the tenant.
        token_algorithms: The algorithms that tokens may be signed with.
        groups_claim: The claim that names the groups of the user.
        group_scopes: The scopes of groups, as JSON: ``{"staff": ["chat", "memory:read"]}``.
        client_id: The client at the first issuer, with which browsers log in; ``None``: there are no browser sessions.
        client_secret: Its secret, if it has one.
        public_url: The address of the gateway in browsers, such as ``https://memory.example``.
        max_requests_per_minute: How many requests of an owner a process answers in a minute.
        max_turns_per_minute: How many turns of an owner a process begins in a minute.
        max_turns_per_owner: How many turns of an owner are in progress in a process.
        max_runs: How many runs are in progress in a process; as many wait for at most 10 seconds.
        interfaces: The interfaces that are on; ``None``: those that are installed.
        push_notifications: Whether A2A clients may name addresses that are told how their tasks end.
        graph: ``module:function`` of the graph; ``None``: the agent of ``threadkeep chat``.
        metrics_host: The address at which ``/metrics`` is served.
        metrics_port: Its port; of several processes each takes the first free one from it on. ``None``: there is none.
    """

    model_config = SettingsConfigDict(env_prefix="THREADKEEP_", env_ignore_empty=True, extra="ignore")

    single_user: str | None = None
    issuers: Words = ()
    audience: str | None = None
    owner_claim: str = "sub"
    tenant_claim: str | None = None
    token_algorithms: Words = ("RS256", "PS256", "ES256", "ES384", "Ed25519")
    groups_claim: str = "groups"
    group_scopes: dict[str, list[str]] = {}
    client_id: str | None = None
    client_secret: SecretStr | None = None
    public_url: str | None = None
    max_requests_per_minute: int = Field(default=600, ge=1)
    max_turns_per_minute: int = Field(default=60, ge=1)
    max_turns_per_owner: int = Field(default=8, ge=1)
    max_runs: int = Field(default=64, ge=1)
    interfaces: Words | None = None
    push_notifications: bool = False
    graph: str | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65_000)

    @field_validator("issuers", "token_algorithms", "interfaces", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(word for word in re.split(r"[\s,]+", value) if word) if isinstance(value, str) else value

    @field_validator("token_algorithms")
    @classmethod
    def _require_asymmetric(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(value) - ALGORITHMS):
            msg = f"THREADKEEP_TOKEN_ALGORITHMS names {unknown[0]!r}; possible are {', '.join(sorted(ALGORITHMS))}."
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
