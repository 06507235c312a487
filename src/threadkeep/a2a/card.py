"""The agent card: what the agent does, and how clients authenticate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    OpenIdConnectSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

import threadkeep
from threadkeep.a2a.messages import SKILL, SKILLS
from threadkeep.gateway.operations import schema_of

if TYPE_CHECKING:
    from threadkeep.gateway.settings import GatewaySettings

PATH: Final = "/a2a"
EXTENSION: Final = "https://github.com/threadkeep/threadkeep/blob/main/docs/a2a.md#skills"
"""The extension that holds the JSON schemas of the skills."""

VERSIONS: Final = ("1.0", "0.3")
TEXT: Final = "text/plain"
DATA: Final = "application/json"
_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "recall": {"query": "Where does the user live?"},
    "remember": {"text": "The user lives in Rome."},
    "why": {"memory_id": "…"},
    "forget": {"memory_id": "…"},
    "proposals": {},
}


def agent_card(settings: GatewaySettings, origin: str) -> AgentCard:
    """Return the card.

    Args:
        settings: The settings of the gateway.
        origin: The address of the gateway for its clients.
    """
    interfaces = [
        AgentInterface(url=f"{origin}{PATH}", protocol_binding="JSONRPC", protocol_version=version)
        for version in VERSIONS
    ]
    extension = AgentExtension(
        uri=EXTENSION, description="The JSON schemas of the skills.", params=ParseDict(_schemas(), Struct())
    )
    card = AgentCard(
        name="Threadkeep",
        description="An agent that remembers its user, and the memory of that user.",
        supported_interfaces=interfaces,
        version=threadkeep.__version__,
        capabilities=AgentCapabilities(streaming=True, extensions=[extension]),
        default_input_modes=[TEXT, DATA],
        default_output_modes=[TEXT, DATA],
        skills=[_chat(), *(_skill(name) for name in SKILLS)],
    )
    for name, scheme in _schemes(settings).items():
        card.security_schemes[name].CopyFrom(scheme)
        card.security_requirements.append(SecurityRequirement(schemes={name: StringList(list=["chat"])}))
    return card


def _schemes(settings: GatewaySettings) -> dict[str, SecurityScheme]:
    """Return how clients authenticate; a gateway of a single user needs nothing."""
    if settings.single_user is not None:
        return {}
    bearer = HTTPAuthSecurityScheme(scheme="Bearer", description="A token of an issuer, or an API key.")
    found = {"bearer": SecurityScheme(http_auth_security_scheme=bearer)}
    for number, issuer in enumerate(settings.issuers):
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        scheme = SecurityScheme(open_id_connect_security_scheme=OpenIdConnectSecurityScheme(open_id_connect_url=url))
        found["oidc" if number == 0 else f"oidc-{number + 1}"] = scheme
    return found


def _chat() -> AgentSkill:
    return AgentSkill(
        id="chat",
        name="Chat",
        description="A text is a turn of the agent, which remembers the user. contextId continues a conversation.",
        tags=["chat", "memory"],
        examples=["What do I have to pack for my trip?"],
        input_modes=[TEXT],
        output_modes=[TEXT],
    )


def _skill(name: str) -> AgentSkill:
    operation = SKILLS[name]
    example = json.dumps({SKILL: name, "arguments": _EXAMPLES[name]}, ensure_ascii=False)
    return AgentSkill(
        id=name,
        name=operation.title,
        description=f"{operation.description} Send one data part; {EXTENSION} has its schema.",
        tags=["memory"],
        examples=[example],
        input_modes=[DATA],
        output_modes=[DATA],
    )


def _schemas() -> dict[str, Any]:
    return {
        name: {
            "arguments": schema_of(operation.arguments, "validation"),
            "result": schema_of(operation.result, "serialization"),
        }
        for name, operation in SKILLS.items()
    }
