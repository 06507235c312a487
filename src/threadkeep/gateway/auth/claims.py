"""Read a token strictly, before any cryptography: its form, its header and its claims."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

MAX_TOKEN_CHARACTERS: Final = 16_384
LEEWAY_SECONDS: Final = 30

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""The types of access tokens."""

ID_TYPES: Final = ("jwt", "")
"""The types of ID tokens; many issuers name none, and the token comes from the issuer itself."""

_REFUSED_HEADERS: Final = frozenset({"crit", "b64", "jku", "jwk", "x5u", "x5c", "cty", "enc", "zip"})
"""Headers that bring a key of the sender, or change how the token is read."""


class InvalidTokenError(Exception):
    """The token is invalid. The client is not told why."""


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A token of valid form; its signature is not verified.

    Attributes:
        algorithm: The algorithm that its header names.
        key_id: The key that its header names, if it names one.
        claims: The claims.
    """

    algorithm: str
    key_id: str | None
    claims: Mapping[str, Any]

    @property
    def issuer(self) -> str:
        """The issuer that the token names."""
        return text_claim(self.claims, "iss")


def parse_token(token: str, algorithms: Collection[str], types: Collection[str] = TYPES) -> UnverifiedToken:
    """Return the header and the claims of *token*.

    Raises:
        InvalidTokenError: The token is no signed JWT of this form.
    """
    if len(token) > MAX_TOKEN_CHARACTERS:
        msg = "The token is too large."
        raise InvalidTokenError(msg)
    segments = token.split(".")
    if len(segments) != 3:  # noqa: PLR2004 - header, claims and signature
        msg = "A token has three parts."
        raise InvalidTokenError(msg)
    header, claims, _ = map(_decode_segment, segments)
    parameters = _parse_object(header)
    if refused := _REFUSED_HEADERS.intersection(parameters):
        msg = f"The header {min(refused)} is refused."
        raise InvalidTokenError(msg)
    algorithm, kind, key_id = (parameters.get(name) for name in ("alg", "typ", "kid"))
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        msg = "The algorithm is not in the list."
        raise InvalidTokenError(msg)
    kind = "" if kind is None and "typ" not in parameters else kind
    if not isinstance(kind, str) or kind.lower() not in types:
        msg = "The token is of another type."
        raise InvalidTokenError(msg)
    if key_id is not None and not (isinstance(key_id, str) and key_id):
        msg = "The key id must be a string."
        raise InvalidTokenError(msg)
    return UnverifiedToken(algorithm, key_id, _parse_object(claims))


def check_claims(claims: Mapping[str, Any], *, audience: str, now: float) -> None:
    """Check the audience and the validity period; the caller has chosen the issuer by its claim.

    Args:
        claims: The claims.
        audience: What the claim ``aud`` must name.
        now: The time in seconds since 1970.

    Raises:
        InvalidTokenError: A claim is missing, of another type, or does not hold.
    """
    audiences = claims.get("aud")
    named = [audiences] if isinstance(audiences, str) else audiences
    if not isinstance(named, list) or audience not in cast("list[Any]", named):
        msg = "The token is for another audience."
        raise InvalidTokenError(msg)
    expires = _moment(claims, "exp")
    begins, issued = _moment(claims, "nbf"), _moment(claims, "iat")
    if expires is None or now >= expires + LEEWAY_SECONDS:
        msg = "The token has expired."
        raise InvalidTokenError(msg)
    if any(one is not None and one > now + LEEWAY_SECONDS for one in (begins, issued)):
        msg = "The token is not valid yet."
        raise InvalidTokenError(msg)


def text_claim(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that is a text and not empty.

    Raises:
        InvalidTokenError: It is missing, or something else.
    """
    value = claims.get(name)
    if not isinstance(value, str) or not value or not _is_plain(value):
        msg = f"The claim {name} must be a string."
        raise InvalidTokenError(msg)
    return value


def scopes_of(claims: Mapping[str, Any], groups_claim: str, group_scopes: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the scopes of the claim ``scope``, and those of the groups that the token names."""
    scope, groups = claims.get("scope"), claims.get(groups_claim)
    scopes = set(scope.split(" ")) if isinstance(scope, str) else set[str]()
    for group in cast("list[Any]", groups) if isinstance(groups, list) else [groups]:
        if isinstance(group, str):
            scopes.update(group_scopes.get(group, ()))
    return scopes


def _decode_segment(segment: str) -> bytes:
    """Return the bytes of *segment*; of the texts that decode to the same bytes, only one is valid."""
    if not _SEGMENT.fullmatch(segment) or len(segment) % 4 == 1:
        msg = "A part of the token is not base64url."
        raise InvalidTokenError(msg)
    data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    if base64.urlsafe_b64encode(data).rstrip(b"=") != segment.encode():
        msg = "A part of the token is not canonical base64url."
        raise InvalidTokenError(msg)
    return data


def _parse_object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        msg = "A part of the token is not JSON."
        raise InvalidTokenError(msg) from error
    if not isinstance(value, dict):
        msg = "A part of the token is not a JSON object."
        raise InvalidTokenError(msg)
    return cast("dict[str, Any]", value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "A name occurs twice."
        raise ValueError(msg)
    return found


def _refuse_constant(name: str) -> Any:
    msg = f"{name} is not JSON."
    raise ValueError(msg)


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        msg = f"The claim {name} must be a number."
        raise InvalidTokenError(msg)
    return value


def _is_plain(text: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text)
