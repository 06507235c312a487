"""The agent card: what the agent does, and how clients authenticate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from a2a.types import a2a_pb2 as types
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

import threadkeep
from threadkeep.a2a.messages import SKILL, SKILLS

if TYPE_CHECKING:
    from threadkeep.gateway.operations import Operation
    from threadkeep.gateway.settings import GatewaySettings

PATH: Final = "/a2a"
EXTENSION: Final = "https://github.com/threadkeep/threadkeep/blob/main/docs/a2a.md#skills"
"""The extension that holds the JSON schemas of the skills."""

VERSIONS: Final = ("1.0", "0.3")
TEXT: Final = "text/plain"
DATA: Final = "application/json"
_CHAT: Final = "A text is a turn of the agent, which remembers the user. contextId continues a conversation."
_EXAMPLES: Final = {"recall": {"query": "Where does the user live?"}, "remember": {"text": "The user lives in Rome."}}


def agent_card(settings: GatewaySettings, origin: str) -> types.AgentCard:
    """Return the card.

    Args:
        settings: The settings of the gateway.
        origin: The address of the gateway for its clients.
    """
    interfaces = [
        types.AgentInterface(url=f"{origin}{PATH}", protocol_binding="JSONRPC", protocol_version=version)
        for version in VERSIONS
    ]
    extension = types.AgentExtension(
        uri=EXTENSION, description="The JSON schemas of the skills.", params=ParseDict(_schemas(), Struct())
    )
    card = types.AgentCard(
        name="Threadkeep",
        description="An agent that remembers its user, and the memory of that user.",
        supported_interfaces=interfaces,
        version=threadkeep.__version__,
        capabilities=types.AgentCapabilities(
            streaming=True, push_notifications=settings.push_notifications, extensions=[extension]
        ),
        default_input_modes=[TEXT, DATA],
        default_output_modes=[TEXT, DATA],
        skills=[_skill("chat"), *(_skill(name, operation) for name, operation in SKILLS.items())],
    )
    for name, scheme in _schemes(settings).items():
        card.security_schemes[name].CopyFrom(scheme)
        card.security_requirements.append(types.SecurityRequirement(schemes={name: types.StringList(list=["chat"])}))
    return card


def _schemes(settings: GatewaySettings) -> dict[str, types.SecurityScheme]:
    """Return how clients authenticate; a gateway of a single user needs nothing."""
    if settings.single_user is not None:
        return {}
    bearer = types.HTTPAuthSecurityScheme(scheme="Bearer", description="A token of an issuer, or an API key.")
    found = {"bearer": types.SecurityScheme(http_auth_security_scheme=bearer)}
    for number, issuer in enumerate(settings.issuers):
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        scheme = types.SecurityScheme(
            open_id_connect_security_scheme=types.OpenIdConnectSecurityScheme(open_id_connect_url=url)
        )
        found["oidc" if number == 0 else f"oidc-{number + 1}"] = scheme
    return found


def _skill(name: str, operation: Operation | None = None) -> types.AgentSkill:
    """Return a skill as the card describes it; without an operation, a text calls it."""
    example = {SKILL: name, "arguments": _EXAMPLES.get(name, {})}
    mode = TEXT if operation is None else DATA
    return types.AgentSkill(
        id=name,
        name=name.title() if operation is None else operation.title,
        description=_CHAT if operation is None else f"{operation.description} One data part; {EXTENSION} has schemas.",
        tags=["memory"],
        examples=[json.dumps(example) if operation else "What do I have to pack for my trip?"],
        input_modes=[mode],
        output_modes=[mode],
    )


def _schemas() -> dict[str, Any]:
    return {
        name: {"arguments": operation.argument_schema, "result": operation.result_schema}
        for name, operation in SKILLS.items()
    }
