"""The OpenAPI document: generated requests against every route, and the rules of others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.gateway.conftest import Open
from tests.gateway.node_packages import node_folder
from tests.gateway.world import USER, GatewayWorld

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
HEADERS = {USER: "ana"}

schemathesis.serializer.alias("application/x-ndjson", "text/plain")


def operations(gateway: GatewayWorld) -> Iterator[Any]:
    schema: Any = schemathesis.openapi.from_url(f"{gateway.origin}/api/openapi.json")
    for found in schema.get_all_operations():
        yield found.ok()


def answered_as_declared(gateway: GatewayWorld, examples: int) -> int:
    """Send *examples* requests of each kind to each route, and return how many were sent."""
    sent = 0
    for operation in operations(gateway):
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=[*HealthCheck],
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case: Any) -> None:
                nonlocal sent
                response = case.call(headers=HEADERS, timeout=30, allow_redirects=False)
                case.validate_response(response, checks=CHECKS)
                sent += 1

            try:
                send()
            except Unsatisfiable:  # a route without parameters takes no invalid ones
                assert mode == schemathesis.GenerationMode.NEGATIVE
    return sent


class TestGeneratedRequests:
    @pytest.mark.long
    @pytest.mark.slow
    def test_every_answer_is_declared(self, open_gateway: Open):
        """No server error, and no status, type or body that the document does not name."""
        gateway = open_gateway(max_requests_per_minute=10**6)

        assert answered_as_declared(gateway, 1) > 100

    @pytest.mark.soak
    @pytest.mark.timeout(1_200)
    def test_every_answer_to_two_thousand_requests_is_declared(self, open_gateway: Open, storage_url: str):
        gateway = open_gateway(url=storage_url, max_requests_per_minute=10**6)

        assert answered_as_declared(gateway, 25) >= 2_000


class TestRules:
    @pytest.mark.soak
    @pytest.mark.timeout(400)
    def test_spectral_finds_no_error(self, gateway: GatewayWorld, tmp_path: Path):
        """The rules of OpenAPI and of OWASP; what is off stands with its reason in ``node/spectral.yaml``."""
        folder = node_folder()
        document = tmp_path / "openapi.json"
        document.write_text(json.dumps(gateway.app.openapi()))
        command = ["node_modules/.bin/spectral", "lint", str(document), "--ruleset", "spectral.yaml", "-f", "json"]
        done = subprocess.run(
            [*command, "--fail-severity", "error"], cwd=folder, capture_output=True, text=True, check=False
        )

        found = [one for one in json.loads(done.stdout.partition("\n\n")[0] or "[]") if one["severity"] == 0]
        assert (found, done.returncode) == ([], 0), done.stderr
