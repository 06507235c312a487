"""The settings of the gateway."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class GatewaySettings(BaseSettings):
    """The settings of the gateway.

    Attributes:
        single_user: The user id of every request; then no token is needed.
        max_runs: How many runs are in progress in a process; as many wait for at most 10 seconds.
        graph: ``module:function`` of the graph; ``None``: the agent of ``threadkeep chat``.
    """

    model_config = SettingsConfigDict(env_prefix="THREADKEEP_", extra="ignore")

    single_user: str | None = None
    max_runs: int = Field(default=64, ge=1)
    graph: str | None = None
