"""Bearer tokens: which the gateway accepts, and what each invalid one gets."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tests.gateway.conftest import Open
from tests.gateway.oidc import AUDIENCE, OidcProvider
from tests.gateway.world import GatewayWorld
from threadkeep.errors import SettingsError
from threadkeep.gateway.auth import authentication, issuers
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.identity import Owner

ROUTE = "/threads"


def encode(data: bytes | str) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def told(answer: httpx.Response) -> dict[str, Any]:
    """Return what an answer says, apart from the id of its trace."""
    return {**answer.json(), "trace_id": None, "status": answer.status_code}


def sign(provider: OidcProvider, header: dict[str, Any], claims: str) -> str:
    """Return a token with a valid signature, whatever it says."""
    full = {"alg": "RS256", "kid": provider.key_id, "typ": "JWT", **header}
    text = f"{encode(json.dumps(full))}.{encode(claims)}"
    signature = provider.keys[provider.key_id].private_key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encode(signature)}"


def hostile_claims(provider: OidcProvider) -> list[dict[str, Any]]:
    """Return claims that are signed correctly, and must not be accepted."""
    now = int(time.time())
    changes: list[dict[str, Any]] = [
        *({"exp": value} for value in (None, now - 31, now - 3600, 0, -1, "9999999999", True, [], {}, False)),
        *({"nbf": value} for value in (now + 60, now + 3600, "0", True, [now], {})),
        *({"iat": value} for value in (now + 60, now + 10**9, "0", [])),
        *({"aud": value} for value in (None, "", "web", AUDIENCE + "/", AUDIENCE.upper(), [], [[AUDIENCE]], 1, {})),
        *({"aud": value} for value in (["other"], {AUDIENCE: 1}, AUDIENCE + " other", AUDIENCE[:-1], True)),
        *({"iss": value} for value in (None, "", provider.origin + "/", provider.origin.upper(), [provider.origin])),
        *({"iss": value} for value in ("http://127.0.0.1", "https://issuer.example", 1, {}, provider.origin + "\x00")),
        *({"sub": value} for value in (None, "", 1, True, [], ["ana"], {}, "a\x00b", "\ud800", "x" * 1001)),
    ]
    return [provider.claims(**one) for one in changes]


def hostile_headers() -> list[dict[str, Any]]:
    """Return headers that are signed correctly, and must not be accepted."""
    urls = ("http://127.0.0.1/jwks", "https://evil.example", "file:///etc/passwd", "")
    return [
        *({"typ": value} for value in ("JWE", "", "dpop+jwt", "logout+jwt", "secevent+jwt", "JOSE")),
        *({name: value} for name in ("jku", "x5u") for value in urls),
        *({"jwk": value} for value in ({"kty": "oct", "k": "AAAA"}, {"kty": "RSA", "n": "AQ", "e": "AQAB"})),
        {"x5c": ["AAAA"]},
        {"cty": "JWT"},
        *({"crit": value} for value in (["exp"], ["b64"], ["unknown"])),
    ]


def unsigned_tokens(provider: OidcProvider) -> list[str]:
    """Return tokens of valid claims without a valid signature."""
    claims = json.dumps(provider.claims())
    good = provider.token()
    head, body, signature = good.split(".")
    found: list[str] = []
    for name in ("none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "RS256 ", "rs256", "RSA1_5", "dir"):
        header = encode(json.dumps({"alg": name, "typ": "JWT", "kid": provider.key_id}))
        found += [f"{header}.{encode(claims)}.{tail}" for tail in ("", "AA", signature)]
    for value in (None, 1, [], ["RS256"], {}, True):
        found.append(f"{encode(json.dumps({'alg': value, 'typ': 'JWT'}))}.{encode(claims)}.{signature}")
    public = provider.keys[provider.key_id].as_pem(private=False)
    for secret in (public, public.strip(), provider.origin.encode(), b"secret" * 8, encode(public).encode()):
        for algorithm in ("HS256", "HS384", "HS512"):
            header = {"alg": algorithm, "typ": "JWT", "kid": provider.key_id}
            key = OctKey.import_key(encode(secret))
            found.append(jwt.encode(header, provider.claims(), key, algorithms=[algorithm]))
    for key, algorithm in ((RSAKey.generate_key(2048), "RS256"), (ECKey.generate_key("P-256"), "ES256")):
        for key_id in ("key-1", "../../etc/passwd", "' OR 1=1 --", "/dev/null", "key-1\x00", "KEY-1", "x" * 1000, "0"):
            header = {"alg": algorithm, "typ": "JWT", "kid": key_id}
            found.append(jwt.encode(header, provider.claims(), key, algorithms=[algorithm]))
        found.append(jwt.encode({"alg": algorithm, "typ": "JWT"}, provider.claims(), key, algorithms=[algorithm]))
    for key_id in (1, True, [], {}, "", ["key-1"]):
        header = encode(json.dumps({"alg": "RS256", "typ": "JWT", "kid": key_id}))
        found.append(f"{header}.{body}.{signature}")
    found += [good + "=", good + "==", f"{head}=.{body}.{signature}", f"{head}.{body}=.{signature}", f" {good}"]
    found += [f"{good}.", f".{good}", f"{good}.AA", f"{head}.{body}", head, f"{head}..{signature}", f".{body}."]
    found += [good.replace(".", ". ", 1), good.replace("e", "é", 1), "..", ".", "a.b.c", "null"]
    found += [f"{head}.{body}.{signature}{more}" for more in ("A", "AA", "AAAA", "-", "_")]
    found += [f"{head}.{body}.{base64.b64encode(b'/' * 64).decode()}", f"{head}.{body}.{'A' * 342}"]
    found += [f"{head}.{encode(text)}.{signature}" for text in ("[]", "null", "1", '"x"', "", "{", "{}x", "NaN")]
    found += [f"{encode(text)}.{body}.{signature}" for text in ("[]", "null", "{}", '{"alg":"RS256","alg":"none"}')]
    found += [f"{encode(encode(head))}.{body}.{signature}", encode(good), f"{encode(good)}.{body}.{signature}"]
    found += ["A" * 1_000, "." * 1_000, "[" * 500, f"{head}.{encode('[' * 5_000)}.{signature}"]
    return found


def duplicated(provider: OidcProvider) -> list[str]:
    """Return tokens with a valid signature over a name that occurs twice, or JSON that is none."""
    claims = json.dumps(provider.claims())[1:]
    texts = [f'{{"{name}": {value}, {claims}' for name, value in (("sub", '"bo"'), ("exp", "1"), ("iss", '"x"'))]
    texts += [f'{{"more": {value}, {claims}' for value in ("NaN", "Infinity", "-Infinity", "1e", "01", "'x'")]
    texts += ['{"aud": "x", ' + claims, '{"scope": "admin", ' + claims, "{" + claims + "}", "\ufeff{" + claims]
    return [sign(provider, {}, text) for text in texts]


def damaged(provider: OidcProvider, count: int) -> list[str]:
    """Return *count* tokens with another character somewhere."""
    chance, good = random.Random(7), provider.token()
    found: set[str] = set()
    while len(found) < count:
        place = chance.randrange(len(good))
        letter = chance.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+/=")
        if letter != good[place]:
            found.add(good[:place] + letter + good[place + 1 :])
    return sorted(found)


def hostile_tokens(provider: OidcProvider) -> list[str]:
    """Return over four hundred tokens, none of which may be accepted."""
    attacks = [sign(provider, {}, json.dumps(claims)) for claims in hostile_claims(provider)]
    attacks += [sign(provider, header, json.dumps(provider.claims())) for header in hostile_headers()]
    attacks += [*unsigned_tokens(provider), *duplicated(provider)]
    return [*attacks, *damaged(provider, max(100, 420 - len(attacks)))]


class TestValidTokens:
    async def test_the_owner_is_the_user_of_the_issuer(self, token_gateway: GatewayWorld, provider: OidcProvider):
        async with token_gateway.client(None) as client:
            created = await client.post(ROUTE, json={"title": "Mine"}, headers=provider.headers("ana"))
            of_ana = (await client.get(ROUTE, headers=provider.headers("ana"))).json()
            of_bo = (await client.get(ROUTE, headers=provider.headers("bo"))).json()

        assert created.status_code == 201
        assert [one["title"] for one in of_ana["threads"]] == ["Mine"]
        assert of_bo["threads"] == []
        owner = Owner("ana", provider.origin)
        assert [one.title for one in await token_gateway.tk.for_owner(owner).threads.list()] == ["Mine"]

    @pytest.mark.parametrize("kind", ["EC", "OKP", "RSA"])
    async def test_algorithms(self, token_gateway: GatewayWorld, provider: OidcProvider, kind: str):
        provider.rotate("other", kind)
        async with token_gateway.client(None) as client:
            assert (await client.get(ROUTE, headers=provider.headers())).status_code == 200

    @pytest.mark.parametrize(
        "changes", [{"aud": ["x", AUDIENCE]}, {"nbf": 0}, {"exp": time.time() + 7200.5}, {"scope": "chat"}]
    )
    async def test_claims(self, token_gateway: GatewayWorld, provider: OidcProvider, changes: dict[str, Any]):
        async with token_gateway.client(None) as client:
            assert (await client.get(ROUTE, headers=provider.headers(**changes))).status_code == 200

    async def test_a_missing_scope_is_named(self, token_gateway: GatewayWorld, provider: OidcProvider):
        async with token_gateway.client(None) as client:
            refused = await client.get(ROUTE, headers=provider.headers(scope="memory:read chats"))

        assert refused.status_code == 403
        assert refused.json()["code"] == "scope_required"
        assert refused.json()["detail"] == "The request needs the scope chat."

    async def test_groups_have_scopes(self, open_gateway: Open, provider: OidcProvider):
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE, group_scopes={"staff": ["chat"]})
        async with gateway.client(None) as client:
            staff = await client.get(ROUTE, headers=provider.headers(scope=None, groups=["guests", "staff"]))
            guest = await client.get(ROUTE, headers=provider.headers(scope=None, groups=["guests", 1, {}]))

        assert (staff.status_code, guest.status_code) == (200, 403)

    async def test_tenants_of_an_issuer_are_apart(self, open_gateway: Open, provider: OidcProvider):
        gateway = open_gateway(issuers=(provider.origin,), audience=AUDIENCE, tenant_claim="org")
        async with gateway.client(None) as client:
            await client.post(ROUTE, json={"title": "Mine"}, headers=provider.headers(org="a"))
            same = await client.get(ROUTE, headers=provider.headers(org="a"))
            other = await client.get(ROUTE, headers=provider.headers(org="b"))
            none = await client.get(ROUTE, headers=provider.headers())

        assert (len(same.json()["threads"]), other.json()["threads"], none.status_code) == (1, [], 401)

    async def test_the_same_user_of_two_issuers_is_two(self, open_gateway: Open, provider: OidcProvider):
        with OidcProvider() as second:
            gateway = open_gateway(issuers=(provider.origin, second.origin), audience=AUDIENCE)
            async with gateway.client(None) as client:
                await client.post(ROUTE, json={"title": "Mine"}, headers=provider.headers("ana"))
                other = await client.get(ROUTE, headers=second.headers("ana"))
                mixed = provider.sign(second.claims("ana"))
                confused = await client.get(ROUTE, headers={"Authorization": f"Bearer {mixed}"})

        assert (other.status_code, other.json()["threads"], confused.status_code) == (200, [], 401)


class TestInvalidTokens:
    async def test_four_hundred_attacks(self, token_gateway: GatewayWorld, provider: OidcProvider):
        """Every one gets the same answer as no token, on every route."""
        attacks = hostile_tokens(provider)
        routes = [
            (method, path.replace("{", "").replace("}", ""))
            for path, methods in token_gateway.app.openapi()["paths"].items()
            for method in methods
            if path.startswith("/api")
        ]
        assert len(set(attacks)) >= 400
        async with httpx.AsyncClient(base_url=token_gateway.origin) as client:
            valid = await client.get("/api/threads", headers=provider.headers())
            nothing = await client.get("/api/threads")
            accepted: list[str] = []
            for number, token in enumerate(attacks):
                method, path = routes[number % len(routes)]
                headers = [(b"authorization", b"Bearer " + token.encode())]
                answer = await client.request(method, path, headers=headers, json={})
                if told(answer) != told(nothing):
                    accepted.append(f"{method} {path} {answer.status_code} {token[:80]}")

        assert valid.status_code == 200
        assert accepted == []
        assert nothing.headers["www-authenticate"] == "Bearer"

    async def test_a_megabyte(self, token_gateway: GatewayWorld, provider: OidcProvider):
        del provider
        async with token_gateway.client(None) as client:
            answer = await client.get(ROUTE, headers={"Authorization": "Bearer " + "A" * 30_000})
        assert answer.status_code == 401

    @pytest.mark.parametrize("scheme", ["Basic ", "Token ", "Bearer", "Bearer  ", "", "bearer\t"])
    async def test_other_schemes(self, token_gateway: GatewayWorld, provider: OidcProvider, scheme: str):
        async with token_gateway.client(None) as client:
            answer = await client.get(ROUTE, headers={"Authorization": f"{scheme}{provider.token()}"})
        assert answer.status_code == 401

    async def test_two_headers(self, token_gateway: GatewayWorld, provider: OidcProvider):
        value = f"Bearer {provider.token()}"
        async with token_gateway.client(None) as client:
            answer = await client.get(ROUTE, headers=[("Authorization", value), ("Authorization", value)])
        assert answer.status_code == 401


class TestKeys:
    async def test_a_new_key_is_fetched_and_a_withdrawn_one_is_refused(
        self, token_gateway: GatewayWorld, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(issuers, "REFETCH_SECONDS", 0.0)
        old = provider.headers()
        async with token_gateway.client(None) as client:
            assert (await client.get(ROUTE, headers=old)).status_code == 200
            provider.rotate("key-2")
            assert (await client.get(ROUTE, headers=provider.headers())).status_code == 200
            assert (await client.get(ROUTE, headers=old)).status_code == 401

    async def test_unknown_keys_cause_one_fetch(self, token_gateway: GatewayWorld, provider: OidcProvider):
        async with token_gateway.client(None) as client:
            await client.get(ROUTE, headers=provider.headers())
            forged = [provider.sign(provider.claims(), {"kid": f"unknown-{number}"}) for number in range(50)]
            answers = await asyncio.gather(
                *(client.get(ROUTE, headers={"Authorization": f"Bearer {token}"}) for token in forged)
            )

        assert {answer.status_code for answer in answers} == {401}
        assert provider.fetches == 1

    async def test_the_first_requests_share_a_fetch(self, token_gateway: GatewayWorld, provider: OidcProvider):
        async with token_gateway.client(None) as client:
            answers = await asyncio.gather(*(client.get(ROUTE, headers=provider.headers()) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert provider.fetches == 1

    async def test_an_unreachable_issuer(
        self, token_gateway: GatewayWorld, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
    ):
        """The gateway starts, is not ready, and answers tokens with 503 until there are keys; then these stay."""
        monkeypatch.setattr(issuers, "REFETCH_SECONDS", 0.0)
        provider.down = True
        async with httpx.AsyncClient(base_url=token_gateway.origin) as client:
            early = await client.get("/api/threads", headers=provider.headers())
            not_ready = await client.get("/readyz")
            provider.down = False
            ready = await client.get("/readyz")
            monkeypatch.setattr(issuers, "KEYS_SECONDS", 0.0)
            provider.down = True
            kept = await client.get("/api/threads", headers=provider.headers())

        assert (early.status_code, early.json()["code"]) == (503, "issuer_unavailable")
        assert int(early.headers["retry-after"]) > 0
        assert (not_ready.status_code, not_ready.json()["unreachable_issuers"]) == (503, [provider.origin])
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        assert kept.status_code == 200

    async def test_a_key_that_cannot_be_looked_up(
        self, token_gateway: GatewayWorld, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
    ):
        """The gateway answers it with 503 and names the issuer, and accepts what known keys sign."""
        monkeypatch.setattr(issuers, "REFETCH_SECONDS", 0.0)
        known = provider.headers()
        async with httpx.AsyncClient(base_url=token_gateway.origin) as client:
            assert (await client.get("/api/threads", headers=known)).status_code == 200
            provider.down = True
            provider.rotate("key-2", keep=True)
            refused = await client.get("/api/threads", headers=provider.headers())
            goes_on = await client.get("/api/threads", headers=known)
            named = await client.get("/readyz")
            provider.down = False
            accepted = await client.get("/api/threads", headers=provider.headers())
            unnamed = await client.get("/readyz")
            unknown = provider.sign(provider.claims(), {"kid": "unknown"})
            denied = await client.get("/api/threads", headers={"Authorization": f"Bearer {unknown}"})

        assert (refused.status_code, refused.json()["code"]) == (503, "issuer_unavailable")
        assert int(refused.headers["retry-after"]) > 0
        assert goes_on.status_code == 200
        assert (named.status_code, named.json()["unreachable_issuers"]) == (200, [provider.origin])
        assert accepted.status_code == 200
        assert unnamed.json()["unreachable_issuers"] == []
        assert denied.status_code == 401


class TestSettings:
    @pytest.mark.parametrize(
        ("given", "variable"),
        [
            ({}, "THREADKEEP_ISSUERS"),
            ({"issuers": "https://a.example"}, "THREADKEEP_AUDIENCE"),
            ({"issuers": "https://a.example", "audience": "a", "single_user": "ana"}, "THREADKEEP_SINGLE_USER"),
            ({"issuers": "http://a.example", "audience": "a"}, "THREADKEEP_ISSUERS"),
            ({"token_algorithms": "HS256"}, "THREADKEEP_TOKEN_ALGORITHMS"),
            ({"token_algorithms": "none"}, "THREADKEEP_TOKEN_ALGORITHMS"),
            ({"token_algorithms": ","}, "THREADKEEP_TOKEN_ALGORITHMS"),
            ({"group_scopes": {"a": ["root"]}}, "THREADKEEP_GROUP_SCOPES"),
        ],
    )
    def test_the_variable_is_named(self, given: dict[str, Any], variable: str):
        with pytest.raises(SettingsError, match=variable):
            authentication(GatewaySettings(**given))

    def test_lists(self):
        settings = GatewaySettings(issuers="https://a.example, https://b.example")  # pyright: ignore[reportArgumentType]
        assert settings.issuers == ("https://a.example", "https://b.example")
