"""Gateways on a storage in memory, in a file and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.world import GatewayWorld
from threadkeep.testing import ScriptedModel

Open = Callable[..., GatewayWorld]


@pytest.fixture(params=["sqlite", "postgres"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty storage."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def open_gateway(tmp_path: Path) -> Iterator[Open]:
    """Return what opens a gateway for this test."""
    with ExitStack() as stack:

        def opened(model: ScriptedModel | None = None, *, url: str | None = None, **options: Any) -> GatewayWorld:
            chosen = url or f"sqlite:///{tmp_path / 'memory.db'}"
            return stack.enter_context(GatewayWorld(chosen, model or ScriptedModel(), **options))

        yield opened


@pytest.fixture
def gateway(open_gateway: Open) -> GatewayWorld:
    """A gateway with a model that always answers."""
    return open_gateway()


@cache
def provider_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "key-1", "use": "sig"})


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    """An OIDC provider. It begins with the same key in every test, as a key takes a tenth of a second to make."""
    with OidcProvider(provider_key()) as opened:
        yield opened


@pytest.fixture
def token_gateway(open_gateway: Open, provider: OidcProvider) -> GatewayWorld:
    """A gateway with that provider as its issuer."""
    return open_gateway(issuers=(provider.origin,), audience=AUDIENCE)
