"""The forms of providers' keys and tokens: each is found in a sentence, and sentences without one are left alone."""

from __future__ import annotations

import hashlib
import random
import re
import string

import pytest

from threadkeep.text.redaction import MARK, has_secret, redact, seed_words

ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "n": string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "z": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}

# A letter and a number in braces are so many random characters of an alphabet; {uuid} is a UUID. What a provider
# gives out without a prefix is told with its name, as people do.
FORMS = r"""
OpenAI|sk-proj-{w74}T3BlbkFJ{w74}
OpenAI service account|sk-svcacct-{A48}
OpenRouter|sk-or-v1-{h64}
Anthropic|sk-ant-api03-{w93}AA
Groq|gsk_{A52}
Replicate|r8_{A37}
xAI|xai-{A80}
Perplexity|pplx-{A48}
Pinecone|pcsk_{A6}_{A63}
LangSmith|lsv2_pt_{h32}_{h10}
Hugging Face|hf_{A34}
GitHub|ghp_{A36}
GitHub fine-grained|github_pat_{A22}_{A59}
GitHub app|ghs_{A36}
GitLab|glpat-{w20}
GitLab runner|glrt-{w20}
Bitbucket|ATBB{A32}
Atlassian|ATATT3xFfGF0{w180}
Slack bot|xoxb-{n12}-{n13}-{A24}
Slack app|xapp-1-{U11}-{n13}-{h64}
Slack webhook|https://hooks.slack.com/services/T{U10}/B{U10}/{A24}
Discord bot|MT{A24}.G{A5}.{w38}
Discord webhook|https://discord.com/api/webhooks/{n18}/{w68}
Telegram|{n10}:AA{w33}
Google API|AIza{w35}
Google OAuth secret|GOCSPX-{w28}
Google OAuth token|ya29.{w120}
AWS access key|AKIA{z16}
AWS secret|AWS_SECRET_ACCESS_KEY={b40}
Azure storage|AccountKey={b86}==
Azure client secret|{A3}8Q~{A34}
Azure DevOps|{A76}AZDO{A4}
DigitalOcean|dop_v1_{h64}
Cloudflare origin|v1.0-{h24}-{h146}
Cloudflare token|My Cloudflare API token is {w40}
Heroku|HRKU-AA{w58}
Heroku UUID|my Heroku API key is {uuid}
Vercel|vcp_{A56}
Netlify|nfp_{A36}
Render|rnd_{A28}
Fly|FlyV1 fm2_{b200}
Supabase|sbp_{h40}
Neon|napi_{a64}
PlanetScale token|pscale_tkn_{w43}
PlanetScale password|pscale_pw_{w43}
Doppler personal|dp.pt.{A43}
Doppler service|dp.st.prd.{A43}
Terraform|{A14}.atlasv1.{w67}
Vault|hvs.{w90}
Pulumi|pul-{h40}
Docker|dckr_pat_{w27}
npm|npm_{A36}
PyPI|pypi-AgEIcHlwaS5vcmc{w160}
RubyGems|rubygems_{h48}
NuGet|oy2{a43}
Cargo|cio{A32}
JFrog|AKCp{A69}
Sonar|squ_{h40}
CircleCI|CCIPAT_{A22}_{h40}
Buildkite|bkua_{h40}
Notion|ntn_{n11}{A35}
Notion old|secret_{A43}
Airtable|pat{A14}.{h64}
Asana|1/{n16}:{h32}
Linear|lin_api_{A40}
Figma|figd_{w40}
Postman|PMAK-{h24}-{h34}
HubSpot|pat-na1-{uuid}
Salesforce|00D{A12}!{A80}
Stripe|sk_live_{A99}
Stripe webhook|whsec_{A32}
Square|sq0csp-{w43}
Braintree|access_token$production${a16}${h32}
Plaid|access-production-{uuid}
Shopify|shpat_{h32}
Razorpay|rzp_live_{A14}
SendGrid|SG.{w22}.{w43}
Mailgun|key-{h32}
Mailchimp|{h32}-us12
Brevo|xkeysib-{h64}-{A16}
Resend|re_{A8}_{A24}
Twilio API key|SK{h32}
Twilio auth token|The Twilio auth token is {h32}
Grafana cloud|glc_{b120}=
Grafana service account|glsa_{A32}_{h8}
New Relic user|NRAK-{U27}
New Relic license|{h36}NRAL
Datadog API|our Datadog API key: {h32}
Datadog app|DD_APP_KEY={h40}
Datadog alone|Datadog: {h32}
Datadog behind|use {h40} for Datadog please
Heroku alone|the Heroku one is {uuid}
Algolia admin|ALGOLIA_ADMIN_KEY={h32}
Cloudflare global|Cloudflare global: {h37}
Linode|here you go {h64} that is for Linode
Sentry user|sntryu_{h64}
Sentry organisation|sntrys_{b120}
Sentry DSN|https://{h32}@o{n6}.ingest.sentry.io/{n7}
Honeycomb|hcaik_{a58}
PostHog|phx_{A43}
LaunchDarkly|sdk-{uuid}
Databricks|dapi{h32}
Dynatrace|dt0c01.{U24}.{U64}
Tailscale|tskey-auth-{A12}-{A32}
1Password|A3-{U6}-{U11}-{U5}-{U5}-{U5}
age|AGE-SECRET-KEY-1{z58}
BIP-39|{seed12}
BIP-39 of 24 words|{seed24}
JSON web token|eyJhbGciOiJIUzI1NiJ9.eyJ{A40}.{w43}
private key|-----BEGIN OPENSSH PRIVATE KEY-----\n{b70}\n-----END OPENSSH PRIVATE KEY-----
connection string|postgresql://app:{A20}@db.example.com:5432/app
one-time password|otpauth://totp/Acme:ana?secret={U32}
Mapbox|sk.eyJ{A80}.{w22}
Dropbox|sl.{w140}
Contentful|CFPAT-{w43}
"""
CARRIERS = ("{}", "Here it is: {}", "please use {} for the deployment, thanks", "KEY={}\nand the rest", '"{}"', "`{}`.")
TRIES = 8


def made(form: str, rng: random.Random) -> tuple[str, list[str]]:
    """Return a text of *form*, and its random parts of eight characters and more."""
    parts: list[str] = []

    def part(found: re.Match[str]) -> str:
        if found[1] == "uuid":
            text = "-".join("".join(rng.choices(ALPHABETS["h"], k=k)) for k in (8, 4, 4, 4, 12))
        elif found[1].startswith("seed"):
            text = " ".join(rng.choices(sorted(seed_words()), k=int(found[1][4:])))
        else:
            text = "".join(rng.choices(ALPHABETS[found[1][0]], k=int(found[1][1:])))
        parts.append(text)
        return text

    text = re.sub(r"\{(\w+)\}", part, form.replace("\\n", "\n"))
    return text, [one for one in parts if len(one) >= 12]


FORMS_BY_NAME = {name: form for name, _, form in (line.partition("|") for line in FORMS.strip().splitlines())}


def missed(name: str) -> list[str]:
    rng = random.Random(hashlib.sha256(name.encode()).digest())
    found: list[str] = []
    for _ in range(TRIES):
        for carrier in CARRIERS:
            secret, parts = made(FORMS_BY_NAME[name], rng)
            text = carrier.format(secret)
            clean = redact(text)
            if MARK not in clean or any(part in clean for part in parts):
                found.append(text)
    return found


def test_98_of_100_tokens_of_every_form_are_found() -> None:
    """Over all forms; of no form fewer than nine in ten."""
    by_form = {name: missed(name) for name in FORMS_BY_NAME}
    tries = TRIES * len(CARRIERS)

    assert len(FORMS_BY_NAME) >= 80
    assert {name: texts[:3] for name, texts in by_form.items() if len(texts) > tries / 10} == {}
    assert sum(map(len, by_form.values())) <= 0.02 * tries * len(by_form)


ORDINARY = """
The primary key is 123e4567-e89b-12d3-a456-426614174000 and the foreign key is on the other table.
Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b broke the token refresh.
The cache key is user-42-profile-v2-2024-05-03.
The key takeaway from chapter 12 was that habits take 66 days.
My train is ICE 1234 at 10:45 from Frankfurt, coach 12, seat 84.
We renamed it from acme-billing-service-2023 to acme-billing-service-2024 last week.
See https://docs.example.com/guides/authentication/tokens#rotation-of-keys-2024 for more.
The endpoint /api/v1/keys/rotate returns 204 in version 2.14.
The token is stored in settings.AUTH_TOKEN_2024 and read at startup.
Our secret is in vault under kv/data/production/billing-2024.
Set API_KEY=${API_KEY} in the environment.
The Figma file is figd out by now.
Use the license MIT or Apache-2.0, whichever you like.
The keyboard is a Keychron K3 Pro with brown switches.
My session id is 123e4567-e89b-12d3-a456-426614174000.
The auth was done in 2019 by a contractor named Re_Start24.
We ordered item SKU AC4711-2024-blue twice.
She wrote forty pages about the ancient river trade and the kings who taxed it there for three centuries.
You can use this tool when people want to build more than one model and they will need some help.
build_docker_image_for_production_2024_05_03 failed again.
The patient id pat-2024-0007 is in the sheet.
new_user = User(username=username, password=hashed_password)
client.post('/register', data=dict(username='newuser', password='newpassword'))
conn = connect(user="myuser", password="my_secure_password123")
const web = new WebClient('xoxb-your-slack-token');
The hash sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= is in the lock file.
Datadog shows trace 4bf92f3577b34da6a3ce929d0e0e4736 as slow.
Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b broke CircleCI again.
The Heroku request id was 123e4567-e89b-12d3-a456-426614174000.
We deployed 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b and the build on Jenkins is green.
Secrets live in the keychain, tokens in Redis, keys in KMS.
The API-COMPATIBILITY-MATRIX is on the wiki.
"""


@pytest.mark.parametrize("text", ORDINARY.strip().splitlines())
def test_what_only_mentions_keys_is_left_alone(text: str) -> None:
    assert redact(text) == text
    assert not has_secret(text)


@pytest.mark.parametrize("text", ["my password is mypassword1", "password: newpassword7", 'password="Mypass-w0rd!"'])
def test_a_stand_in_is_a_password_outside_of_source_code(text: str) -> None:
    assert has_secret(text)


def test_a_seed_phrase_may_be_numbered() -> None:
    """Wallets show the words so; what stands beside them stays."""
    words = random.Random(7).choices(sorted(seed_words()), k=12)
    numbered = " ".join(f"{place}. {word}" for place, word in enumerate(words, 1))

    assert redact(f"My wallet: {numbered} - for the heirs.") == f"My wallet: 1. {MARK}seed phrase] - for the heirs."
    assert len(seed_words()) == 2_048
