"""Clients of the A2A SDK, in the protocol's versions 1.0 and 0.3."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_data_part, new_text_part
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, StreamResponse
from google.protobuf.json_format import MessageToDict

from tests.gateway.conftest import Open, open_gateway, provider, storage_url
from tests.gateway.world import USER, GatewayWorld
from threadkeep.ids import new_id

__all__ = ["open_gateway", "provider", "storage_url"]

VERSIONS = ("1.0", "0.3")


@pytest.fixture
def gateway(open_gateway: Open) -> GatewayWorld:
    """A gateway with A2A and HTTP."""
    return open_gateway(interfaces=("api", "a2a"))


@asynccontextmanager
async def connected(
    gateway: GatewayWorld, user: str = "ana", *, version: str = "1.0", streaming: bool = True, **headers: str
) -> AsyncGenerator[Client]:
    """Yield a client of the SDK that speaks one version."""
    async with httpx.AsyncClient(headers={USER: user, **headers}, timeout=60) as http:
        card = await A2ACardResolver(http, gateway.origin).get_agent_card()
        chosen = [one for one in card.supported_interfaces if one.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(chosen)
        yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)


def message(*parts: Part | str, context_id: str = "", task_id: str = "") -> SendMessageRequest:
    """Return a request with parts; a text is a text part."""
    made = [new_text_part(part) if isinstance(part, str) else part for part in parts]
    said = Message(message_id=new_id(), role=Role.ROLE_USER, parts=made, context_id=context_id, task_id=task_id)
    return SendMessageRequest(message=said)


async def sent(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    """Return everything that is answered."""
    return [event async for event in client.send_message(request)]


async def skill(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a skill."""
    (answer,) = await sent(client, message(new_data_part({"skill": name, "arguments": arguments})))
    (part,) = answer.message.parts
    return MessageToDict(part.data)


def text_of(events: list[StreamResponse]) -> str:
    """Return the text of the artifacts that a stream brought."""
    found = [part.text for event in events for part in event.artifact_update.artifact.parts]
    return "".join(found)
