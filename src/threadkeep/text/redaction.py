"""Secrets do not reach the store: they are found by pattern and replaced by what they were.

Every pattern is bounded or possessive, so a text of 1 MB takes a fraction of a second whatever it
says. What is not a secret by its form (a commit's hash, a UUID, a telephone number) is left alone.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, Final, TypeAlias

from threadkeep.errors import SettingsError, optional_import
from threadkeep.text.secret_forms import KEYS, TOKEN_LIKE
from threadkeep.text.semantics import words

if TYPE_CHECKING:
    from phonenumbers import PhoneNumberMatcher


MARK: Final = "[redacted: "

_HEX_LENGTHS: Final = frozenset({32, 40, 56, 64, 96, 128})
_MIN_ENTROPY_BITS: Final = 3.6
_MIN_CHANGES: Final = 0.27
_LOWER, _UPPER = 0, 1
_PASSES: Final = 4
"""What stood beside a secret may be told from one once that is gone; nearly always the second pass finds nothing."""
_SHORT_SECRET: Final = 4

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")


_CREDENTIALS: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@'\"<>\[]{0,128}:[^\s@'\"<>\[]{1,256}@[^\s'\"<>]{1,2048}"
)
_BEARER: Final = re.compile(
    r"(?i)\b(?:bearer|basic)[ \t]{1,4}(?=[\w.~+/=-]{0,512}[0-9A-Z=_])([\w.~+/-]{16,4096}+={0,2})"
)

# A name, what joins it to its value, and the value. "is" asks more of the value than "=" does.
_NAMED: Final = re.compile(
    r"""(?ix)
    (?P<name>
        (?P<pass> pass(?:word|wort|phrase|code|wd)s? | pwd | kennwort | mot\ de\ passe | contraseña | senha )
      | (?P<key> (?:api|access|secret|private|account|auth|encryption|signing|license)[ _-]?(?:key|token|secret)(?:[ _-]?id)?
          | client[ _-]?secret | aws_secret_access_key | secret | token | signature | credentials? )
      | (?P<pin> pin(?:[ ]code)? | cvv2? | cvc | (?:verification|security|one-?time|2fa|otp|login|door|gate|alarm|access)[ ]code )
    )
    (?: ["'`](?!s\b) ){0,2}
    (?P<for> \ (?:for|to|of|on|at|in)\ (?:[^\s.,:;=?!\[]{1,40}\ ){0,4}?[^\s.,:;=?!\[]{1,40} )?
    (?P<joint> [ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4} | [ ](?:is|was|to|are|est|es|é|ist|lautet)(?:[ ](?:now|still))?[ :]{1,3} | ['’]s[ ] | (?(for)(?!)|[ ](?=["'`])) )
    (?P<quote> ["'`]? )
    (?P<value> (?!\[redacted)[^\s"'`,;]{1,512} )
    """
)
_NAMED_AT: Final = re.compile(
    r"(?i)(?:pass|pwd|kennwort|mot de passe|contraseña|senha|key|secret|token|signature|credential|pin\b|cvv|cvc|code)"
)

# A key or token by its name alone, without "api" or "secret" before it: then the value has to be long.
_CREDENTIAL: Final = re.compile(
    r"""(?ix)
    (?<![A-Za-z0-9]) (?: (?P<before>[a-z0-9]{1,24}) [ _.-] )?
    (?: keys? | tokens? | secrets? | sid | dsn | credentials? | license | auth(?:orization)? ) \b
    (?: [ _-](?:id|key|token|value) )?
    (?: ["'`)] ){0,2}
    (?: [ ](?:for|to|of|on|at|in|from|with)[ ](?:[^\s.,:;=?!\[]{1,40}[ ]){0,3}?[^\s.,:;=?!\[]{1,40} )?
    [ \t]{0,4}
    (?: => | := | = | : | -> | , | [–—-] | (?:is|was|ist|lautet|es|est|é|would[ ]be)(?:[ ](?:now|still|this))?:? )?
    \s{0,4} ["'`(<]{0,2}
    (?P<value> (?!\[redacted) [A-Za-z0-9_+/.~:-]{20,256}={0,2} )
    """
)
_CREDENTIAL_AT: Final = re.compile(r"(?i)key|token|secret|sid\b|dsn\b|credential|license|auth")
_VALUE_FIRST: Final = re.compile(
    r"""(?ix)
    (?<![\w/.-]) (?P<value> [a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12} | [A-Za-z0-9_+-]{20,128} )
    (?= [ ](?:as|is)[ ](?:my|our|the|your|a|an|its|their)[ ](?:[\w-]{1,24}[ ]){0,3}?(?:key|token|secret|password|passphrase)\b )
    """
)
# Keys of some providers are nothing but digits: beside the provider's name they are keys, unless they are called
# something else.
_PROVIDER: Final = (
    r"(?:datadog|heroku|twilio|algolia|new\ ?relic|cloudflare|pagerduty|opsgenie|mailgun|postmark|codecov|coveralls|"
    r"bitrise|rollbar|bugsnag|honeybadger|loggly|sumo\ ?logic|splunk|linode|vultr|hetzner|fastly|dnsimple|namecheap|"
    r"godaddy|zendesk|intercom|freshdesk|amplitude|mixpanel|segment|snyk|sonar(?:cloud|qube)|travis|circleci|jenkins|"
    r"confluent|airtable|typeform|mailchimp|sendgrid|vonage|nexmo|plivo|messagebird|pusher|ably|pubnub|okta|auth0|"
    r"wandb|weights\ and\ biases|mistral|deepl|elevenlabs|assemblyai|deepgram|openweather(?:map)?|infura|alchemy|"
    r"etherscan|binance|coinbase|kraken|railway|supabase|upstash|fauna|terraform|pulumi|meraki)"
)
_DIGITS: Final = r"(?:[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}|[a-f0-9]{64}|[a-f0-9]{40}|[a-f0-9]{37}|[a-f0-9]{32})"
_OF_PROVIDER: Final = re.compile(
    rf"(?i)\b{_PROVIDER}\b(?P<between>[^\n.?!\[]{{1,40}}?)(?<![\w/.-])(?P<value>{_DIGITS})(?![\w/-])"
)
_FOR_PROVIDER: Final = re.compile(
    rf"(?i)(?<![\w/.-])(?P<value>{_DIGITS})(?![\w/-])(?P<between>[^\n.?!\[]{{1,30}}?)\b{_PROVIDER}\b"
)
_CALLED_OTHERWISE: Final = re.compile(
    r"(?i)\b(?:commit|hash|sha\d*|digest|checksum|revision|request|trace|span|event|run|build|job|ticket|order|page|"
    r"project|app|user|record|row|issue|incident|deploy(?:ment)?|release|dashboard|monitor|fixed|broke|ids?)\b|/"
)
_NO_CREDENTIAL: Final = words(
    """
    primary foreign partition sort cache public idempotency unique composite shard object s3 row routing lookup hash
    dedup deduplication index candidate natural surrogate dictionary dict map json storage redis group context csrf page
    next continuation cancellation answer session
    """
)

_SEED_WORDS: Final = re.compile(
    r"(?i)(?<![\w'’])[a-z]{3,8}(?![\w'’])(?:[ \t\n,.;:)\d-]{1,8}[a-z]{3,8}(?![\w'’])){11,}+"
)
_FEWEST_SEED_WORDS: Final = 12
_OF_SENTENCES: Final = words(
    """
    about above again all also always another any because before below between both can come could each every feel few
    find first from give great have help how into just know like make maybe more most much must need never now one only
    open other over own real same say should such tell than that then there they this time today two under until use very
    want way what when where which while will with word work world you your
    """
)
"""Words of the list that sentences are made of; random ones have hardly any."""

# What people say of passwords and tokens without telling them.
_ORDINARY: Final = words(
    """
    a about above accepted active actually again all allowed already also always an and another any as asked at back
    bad been before being best better between both broken but by can case cached changed changing chosen cleared
    common complex compromised configured confirmed copied correct correctly created currently default deleted
    different disabled easy either empty enabled encrypted enough entered everything exactly exist exposed expired
    expiring fetched few fine first for forgotten found from generated get given gone good guessable hard hardcoded
    hashed he her here hidden his how i if important in incorrect incorrectly insecure inside invalid invalidated it
    its itself just kept known later leaked like limited linked locked log login long loaded longer lost made
    managed mandatory masked me mine missing more much must my necessary needed never new next no none not nothing
    now null obvious off ok okay old on once one only optional or our out outdated over passed per personal plain
    possible present private probably protected public quite read ready really recorded rejected remembered removed
    renewed required reset resolved revoked right rotated safe salted same saved secret secure see sent set shared
    she short should shown similar simple so some someone something soon still stolen stored strange stronger strong
    such supposed sure temporary that the their them then there they this those to today together tomorrow too true
    truncated typed undefined unique unknown unless unsafe unset until up updated upon us used user useless using
    usually valid validated very visible was weak well what when where whether which while who why will with without
    working works wrong yes yesterday yet you your patience love success
    """
)

_CARD: Final = re.compile(
    r"(?<![\w.+-])(?:\d{13,19}|\d{4}(?:[ -]\d{4}){3}(?:[ -]\d{1,3})?|\d{4}[ -]\d{6}[ -]\d{5})(?![\w-]|\.\d)"
)
_CARD_ISSUERS: Final = re.compile(
    r"4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3[47]|3(?:0[0-5]|[689])|35(?:2[89]|[3-8])|6(?:011|4[4-9]|5|2)"
)

_LONG: Final = re.compile(r"(?<![\w+/=.-])[\w+/=-]{20,}+(?![\w])")
_INTEGRITY: Final = re.compile(r"sha(?:256|384|512)-")
_VARIABLE: Final = re.compile(r"[a-z]{1,30}_(?:[a-z]{1,30}_){0,3}?(?:pass(?:word|wd)?|pwd|secret|token|key)")
_STAND_IN: Final = re.compile(
    r"(?i)(?:(?:my|your|the|new|old|test|some|user|secure|secret|strong|sample|example|dummy|fake|admin|db|database)[-_ ]?){1,3}"
    r"(?:pass(?:word|wd)?|pwd)\d{0,3}"
)
"""A password that source code has in quotation marks where one belongs: ``password="mypassword"``."""
_SEPARATORS: Final = re.compile(r"[-_=./:]")
_WORD: Final = re.compile(r"[A-Za-z]+")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")


def redact(text: str) -> str:
    """Return *text* with every secret replaced by ``[redacted: <what it was>]``.

    What is found: keys and tokens of well-known providers, private keys, JSON web tokens, bearer
    tokens, connection strings with credentials, ``password is …`` and its like, what is called a key or token and
    looks like one, seed phrases of wallets, payment cards (by Luhn's sum), and long tokens of high entropy. Applying it twice changes nothing more.
    """
    for _ in range(_PASSES):
        clean = _redacted(text)
        if clean == text:
            break
        text = clean
    return text


def has_secret(text: str) -> bool:
    """Return whether *text* holds a secret, or held one before it was redacted."""
    return MARK in text or redact(text) != text


def _redacted(text: str) -> str:
    text = _without_private_keys(text)
    has_token = TOKEN_LIKE.search(text) is not None
    for what, hint, pattern in KEYS if has_token else ():
        if hint in text:
            text = pattern.sub(f"{MARK}{what}]", text)
    if "://" in text and "@" in text:
        text = _CREDENTIALS.sub(f"{MARK}connection string]", text)
    text = _BEARER.sub(f"{MARK}bearer token]", text)
    if _NAMED_AT.search(text):
        text = _NAMED.sub(_named, text)
    if has_token and _CREDENTIAL_AT.search(text):
        text = _CREDENTIAL.sub(_credential, text)
        text = _VALUE_FIRST.sub(_first_value, text)
    if has_token:
        text = _FOR_PROVIDER.sub(_of_provider, _OF_PROVIDER.sub(_of_provider, text))
    if _has_seed(text):
        text = _SEED_WORDS.sub(_seed, text)
    text = _CARD.sub(_card, text)
    return _LONG.sub(_long, text)


def _without_private_keys(text: str) -> str:
    parts: list[str] = []
    at = 0
    while begin := _BEGIN.search(text, at):
        parts += (text[at : begin.start()], f"{MARK}private key]")
        end = _END.search(text, begin.end())
        at = end.end() if end else len(text)  # one that was cut off: better too much than half of it
        if end is None:
            break
    return "".join((*parts, text[at:])) if parts else text


def _named(found: re.Match[str]) -> str:
    value = found["value"]
    bare = value.rstrip(".!?)]}…")
    kept = value[len(bare) :]
    if not _tells(found, bare):
        return found[0]
    what = "password" if found["pass"] else "code" if found["pin"] else "secret"
    before = found[0][: found.start("value") - found.start()]
    return f"{before}{MARK}{what}]{kept}"


def _credential(found: re.Match[str]) -> str:
    value = found["value"]
    bare = value.rstrip(".:-")
    before = (found["before"] or "").casefold()
    if before in _NO_CREDENTIAL or not _is_key(bare):
        return found[0]
    start = found.start("value") - found.start()
    return f"{found[0][:start]}{MARK}secret]{value[len(bare) :]}"


def _first_value(found: re.Match[str]) -> str:
    return f"{MARK}secret]" if _is_key(found["value"]) else found[0]


def _of_provider(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start("value") - 30) : found.start("value")]
    if _CALLED_OTHERWISE.search(found["between"]) or _CALLED_OTHERWISE.search(before):
        return found[0]
    start, end = found.start("value") - found.start(), found.end("value") - found.start()
    return f"{found[0][:start]}{MARK}secret]{found[0][end:]}"


def _is_key(value: str) -> bool:
    """Return whether *value*, which is called a key, has the form of one: letters and digits, and no words of a path."""
    body = value.rstrip("=")
    digits = sum(character.isdigit() for character in body)
    letters = sum(character.isalpha() for character in body)
    if digits < 2 or letters < 2 or _INTEGRITY.match(body):  # noqa: PLR2004 - a name carries one digit
        return False
    if _UUID.fullmatch(body) or _HEX.fullmatch(body):
        return True
    if "://" in body or body.count(".") > 2 or body.count(":") > 1:  # noqa: PLR2004 - an address, or a name of a module
        return False
    return not any(part.isalpha() and len(part) > 4 and part.islower() for part in _SEPARATORS.split(body))  # noqa: PLR2004 - a word


def _has_seed(text: str) -> bool:
    """Return whether *text* may have a seed phrase: enough of its words in a row are in the list."""
    tokens = text.split()
    run = 0
    for token in tokens if len(tokens) >= _FEWEST_SEED_WORDS else ():
        word = token.rpartition("=")[2].strip("0123456789.,;:)(-\"'`").casefold()
        run = run + 1 if word in seed_words() else run if not word else 0
        if run >= _FEWEST_SEED_WORDS:
            return True
    return False


def _seed(found: re.Match[str]) -> str:
    """Replace runs of 12 and more words of BIP-39's list that are no sentence."""
    text = found[0]
    parts: list[str] = []
    done = 0
    run: list[re.Match[str]] = []
    for word in (*_WORD.finditer(text), None):
        if word is not None and word[0].casefold() in seed_words():
            run.append(word)
            continue
        if len(run) >= _FEWEST_SEED_WORDS and 4 * sum(one[0].casefold() in _OF_SENTENCES for one in run) < len(run):
            parts += (text[done : run[0].start()], f"{MARK}seed phrase]")
            done = run[-1].end()
        run = []
    return "".join((*parts, text[done:]))


@cache
def seed_words() -> frozenset[str]:
    """Return the English words of BIP-39, of which wallets make seed phrases."""
    return words(files("threadkeep.text").joinpath("bip39.txt").read_text("ascii"))


def _tells(found: re.Match[str], value: str) -> bool:
    """Whether *value* is told as the secret, not said of it."""
    if not value or value.casefold() in _ORDINARY or value.startswith(("$", "<", "%", "http")):
        return False
    if not set("([{").isdisjoint(value) or _VARIABLE.fullmatch(value):  # an expression of a programming language
        return False
    digits = sum(character.isdigit() for character in value)
    if found["pin"]:
        return 3 <= len(value) <= 10 and digits == len(value)  # noqa: PLR2004 - the length of such codes
    if found["key"]:
        return len(value) >= 8 and digits > 0  # noqa: PLR2004 - shorter ones are words
    mixed = digits > 0 or any(not c.isalnum() for c in value.strip("-")) or _capitals_inside(value)
    return _is_password(found, value, mixed=mixed)


def _is_password(found: re.Match[str], value: str, *, mixed: bool) -> bool:
    joint = found["joint"].strip().casefold()
    if found["quote"] and joint[-1:] in {"=", ":"} and _STAND_IN.fullmatch(value):
        return False
    if not joint.strip("'’s") or not joint[-1].isalpha() or found["quote"]:  # "=", ":", or in quotation marks
        return len(value) >= (_SHORT_SECRET - 1 if mixed else _SHORT_SECRET)
    if joint == "to":  # "the password to my laptop", "to a@b.org"
        return mixed and ("." not in value or any(c.isdigit() for c in value))
    return mixed or _ends_clause(found)


def _capitals_inside(value: str) -> bool:
    return any(character.isupper() for character in value[1:]) and not value.isupper()


def _ends_clause(found: re.Match[str]) -> bool:
    """Whether nothing follows: "the password is swordfish", not "the password is swordfish-like in style"."""
    rest = found.string[found.end() : found.end() + 2]
    return found["value"][-1:] in ".!" or not rest.strip() or rest[0] in ",;\n\"'`"


def _card(found: re.Match[str]) -> str:
    digits = [int(character) for character in found[0] if character.isdigit()]
    if not _CARD_ISSUERS.match("".join(map(str, digits))) or len(set(digits)) == 1:
        return found[0]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]  # noqa: PLR2004 - Luhn: 5 · 2 has two digits
    return f"{MARK}payment card]" if (sum(digits[::-2]) + sum(doubled)) % 10 == 0 else found[0]


def _long(found: re.Match[str]) -> str:
    return f"{MARK}token]" if _is_random(found[0]) else found[0]


def _is_random(token: str) -> bool:
    """Whether *token* looks drawn by lot: mixed characters that change kind often, and no name or digest.

    Names in camel, snake or kebab case seldom change kind; digests and UUIDs are public as a rule.
    """
    if len(token) > 4096:  # noqa: PLR2004 - an image or a file in base64, not a key
        return False
    body = token.strip("=")
    if _UUID.fullmatch(body) or _INTEGRITY.match(body) or (_HEX.fullmatch(body) and len(body) in _HEX_LENGTHS):
        return False
    letters = sum(c.isalpha() for c in body)
    digits = sum(c.isdigit() for c in body)
    if digits < 3 or letters < 6 or not body.isascii():  # noqa: PLR2004 - names carry a year or a version
        return False
    kinds = [_kind(character) for character in body]
    changes = sum(a != b and (a, b) != (_UPPER, _LOWER) for a, b in pairwise(kinds))
    if "/" in body and any(part.isalpha() and part.islower() and len(part) > 3 for part in body.split("/")):  # noqa: PLR2004 - a path has words
        return False
    if any(part.isalpha() and len(part) > 3 for part in re.split(r"[-_=]", body)):  # noqa: PLR2004 - so does a name
        return False
    counts = Counter(body)
    entropy = -sum(n / len(body) * log2(n / len(body)) for n in counts.values())
    return entropy >= _MIN_ENTROPY_BITS and changes / len(body) >= _MIN_CHANGES


def _kind(character: str) -> int:
    return _LOWER if character.islower() else _UPPER if character.isupper() else 2 if character.isdigit() else 3


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
        msg = f"{REGION_VARIABLE} is not a region with telephone numbers: write two letters, such as US or DE."
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
