"""The agent card: what the agent does, and how clients authenticate."""

from __future__ import annotations

import json
from typing import Any, Final

from a2a.server.routes import create_agent_card_routes
from a2a.types.a2a_pb2 import AgentCard, AgentExtension
from google.protobuf.json_format import ParseDict

import threadkeep
from threadkeep.a2a.messages import SKILL, SKILLS
from threadkeep.gateway.operations import Operation
from threadkeep.gateway.settings import GatewaySettings

PATH: Final = "/a2a"
EXTENSION: Final = "https://github.com/threadkeep/threadkeep/blob/main/docs/a2a.md#skills"
"""The extension that holds the JSON schemas of the skills."""

_TEXT: Final = "text/plain"
_DATA: Final = "application/json"
_EXAMPLES: Final = {"recall": {"query": "Where does the user live?"}, "remember": {"text": "The user lives in Rome."}}
_CHAT: Final = "A text is a turn of the agent, which remembers the user. contextId continues a conversation."


def agent_card(settings: GatewaySettings, origin: str) -> AgentCard:
    """Return the card without the schemas; *origin* is the address of the gateway for its clients."""
    schemes = _schemes(settings)
    interface = {"url": f"{origin}{PATH}", "protocolBinding": "JSONRPC"}
    card = {
        "name": "Threadkeep",
        "description": "An agent that remembers its user, and the memory of that user.",
        "supportedInterfaces": [{**interface, "protocolVersion": version} for version in ("1.0", "0.3")],
        "version": threadkeep.__version__,
        "capabilities": {"streaming": True, "pushNotifications": settings.push_notifications},
        "defaultInputModes": [_TEXT, _DATA],
        "defaultOutputModes": [_TEXT, _DATA],
        "skills": [_skill("chat"), *(_skill(name, operation) for name, operation in SKILLS.items())],
        "securitySchemes": schemes,
        "securityRequirements": [{"schemes": {name: {"list": ["chat"]}}} for name in schemes],
    }
    return ParseDict(card, AgentCard())


def card_endpoint(settings: GatewaySettings, origin: str) -> Any:
    """Return what answers requests for the card, with the schemas."""
    schemas = {
        name: {"arguments": operation.argument_schema, "result": operation.result_schema}
        for name, operation in SKILLS.items()
    }
    extension = {"uri": EXTENSION, "description": "The JSON schemas of the skills.", "params": schemas}
    card = agent_card(settings, origin)
    card.capabilities.extensions.append(ParseDict(extension, AgentExtension()))
    (route,) = create_agent_card_routes(card)
    return route.endpoint


def _schemes(settings: GatewaySettings) -> dict[str, Any]:
    """Return how clients authenticate; a gateway of a single user needs nothing."""
    if settings.single_user is not None:
        return {}
    bearer = {"scheme": "Bearer", "description": "A token of an issuer, or an API key."}
    schemes: dict[str, Any] = {"bearer": {"httpAuthSecurityScheme": bearer}}
    for number, issuer in enumerate(settings.issuers, 1):
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        name = "oidc" if number == 1 else f"oidc-{number}"
        schemes[name] = {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}
    return schemes


def _skill(name: str, operation: Operation | None = None) -> dict[str, Any]:
    """Return a skill as the card describes it; without an operation, a text calls it."""
    mode = _TEXT if operation is None else _DATA
    call = json.dumps({SKILL: name, "arguments": _EXAMPLES.get(name, {})})
    return {
        "id": name,
        "name": operation.title if operation else name.title(),
        "description": f"{operation.description} One data part; {EXTENSION} has schemas." if operation else _CHAT,
        "tags": ["memory"],
        "examples": [call if operation else "What do I have to pack for my trip?"],
        "inputModes": [mode],
        "outputModes": [mode],
    }
