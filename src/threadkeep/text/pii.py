"""Personal data that a deployment wants cut out, too: e-mail addresses, telephone numbers, IBANs, IP addresses.

Each kind is told by its form and, where it has one, by its check: numbering plans, the sum of an IBAN, what an
address may be. Names and places of residence have no form and are left alone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from threadkeep.errors import SettingsError, optional_import
from threadkeep.text.normalization import words
from threadkeep.text.redaction import MARK, redact

if TYPE_CHECKING:
    from phonenumbers import PhoneNumberMatcher

Redact: TypeAlias = Callable[[str], str]

KINDS: Final = ("email", "phone", "iban", "ip")
VARIABLE: Final = "THREADKEEP_REDACT"
REGION_VARIABLE: Final = "THREADKEEP_REDACT_REGION"

_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?!\w)")
_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![a-z])")
_IPV4: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")
_FEWEST_GROUPS: Final = 4
_WHOLE_GROUP: Final = 4
_MOST_TRIES: Final = 10_000
"""After so many numbers that are none, the rest of a text is looked at no more."""

_IBAN_LENGTHS: Final = {
    word[:2]: int(word[2:])
    for word in words(
        """
        AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20
        EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30
        KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24
        PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29
        VA22 VG24 XK20 YE30
        """
    )
}
"""How long an IBAN of each country is. Source: the SWIFT IBAN registry."""


def redactor(kinds: Sequence[str], *, region: str | None = None) -> Redact:
    """Return what cuts out secrets, always, and personal data of *kinds*.

    Args:
        kinds: Some of :data:`KINDS`; none: secrets only.
        region: Two letters: where telephone numbers without a ``+`` are from; ``None``: those are left alone.

    Raises:
        SettingsError: There is no such kind or region, or telephone numbers need a package that is missing.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        msg = f"{VARIABLE} names {unknown[0][:40]!r}; there are {', '.join(KINDS)}."
        raise SettingsError(msg, variable=VARIABLE)
    steps: list[Redact] = [redact]
    if "email" in kinds:
        steps.append(lambda text: _EMAIL.sub(f"{MARK}e-mail address]", text) if "@" in text else text)
    if "iban" in kinds:
        steps.append(lambda text: _IBAN.sub(_iban, text))
    if "ip" in kinds:
        steps.append(lambda text: _IPV6.sub(_address, _IPV4.sub(_address, text)))
    if "phone" in kinds:  # last: an IBAN or an address may look like one
        steps.append(_phones(region))

    def all_of(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return all_of if len(steps) > 1 else redact


def _phones(region: str | None) -> Redact:
    with optional_import(f"{VARIABLE}=phone", extra="redaction", variable=VARIABLE):
        import phonenumbers
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        msg = f"{REGION_VARIABLE} is no region with telephone numbers; give two letters, such as US or DE."
        raise SettingsError(msg, variable=REGION_VARIABLE)

    def step(text: str) -> str:
        parts: list[str] = []
        at = 0
        found: PhoneNumberMatcher = phonenumbers.PhoneNumberMatcher(text, region, max_tries=_MOST_TRIES)
        for match in found:
            parts += (text[at : match.start], f"{MARK}telephone number]")
            at = match.end
        return "".join((*parts, text[at:])) if parts else text

    return step


def _iban(found: re.Match[str]) -> str:
    """Return *found* without the IBAN that it begins with, if that is one; more may follow it in capitals."""
    wanted = _IBAN_LENGTHS.get(found[0][:2])
    if wanted is None:
        return found[0]
    letters = [(at, c) for at, c in enumerate(found[0]) if c.isalnum()]
    if len(letters) < wanted:
        return found[0]
    end = letters[wanted - 1][0] + 1
    text = "".join(c for _, c in letters[:wanted])
    goes_on = found[0][end : end + 1].isalnum()
    if goes_on or int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 != 1:
        return found[0]
    return f"{MARK}IBAN]{found[0][end:]}"


def _address(found: re.Match[str]) -> str:
    try:
        address = ipaddress.ip_address(found[0])
    except ValueError:
        return found[0]
    nobody = address.is_loopback or address.is_unspecified
    if nobody or (isinstance(address, ipaddress.IPv6Address) and not _is_written_out(found[0])):
        return found[0]
    return f"{MARK}IP address]"


def _is_written_out(text: str) -> bool:
    """Whether *text* says enough to be an address: ``a::b`` is one by its form, and a name in a program."""
    groups = [group for group in text.split(":") if group]
    return any(c.isdigit() for c in text) and (len(groups) >= _FEWEST_GROUPS or len(groups[0]) == _WHOLE_GROUP)
