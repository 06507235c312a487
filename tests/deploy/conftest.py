"""The gateways of the tests of the gateway."""

from __future__ import annotations

from tests.gateway.conftest import open_gateway

__all__ = ["open_gateway"]
