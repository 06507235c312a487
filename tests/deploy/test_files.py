"""Names of metrics and settings in the files for operators are those of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import threadkeep
from tests.gateway.conftest import Open
from tests.gateway.test_lifetime import until
from threadkeep.gateway.serve import STOP_SECONDS
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.settings import Settings, secret_file_variables, variables_of
from tools import image_requirements

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "threadkeep"
METRIC = re.compile(r"\bthreadkeep_[a-z_]+")
VARIABLE = re.compile(r"\b(?:THREADKEEP|LANGGRAPH)_[A-Z_]*[A-Z]\b")
LONGEST_STOP = GatewaySettings.model_fields["drain_seconds"].default + STOP_SECONDS
WATCHED_BY_ALERTS = {
    "threadkeep_turns_total",
    "threadkeep_degraded_total",
    "threadkeep_refused_total",
    "threadkeep_queue_oldest_seconds",
    "threadkeep_queue_turns",
}


def variables() -> set[str]:
    """Return every variable that the code reads, those of the files of secrets included."""
    sources = (Settings, GatewaySettings)
    names = {name for one in sources for field in one.model_fields for name in variables_of(one, field)}
    return names | {name for one in sources for name in secret_file_variables(one)}


@pytest.fixture
async def metrics(open_gateway: Open) -> set[str]:
    """The names of all samples that a gateway with workers exports, once it has counted its queue."""
    gateway = open_gateway()
    async with gateway.client() as client:
        await gateway.turn(client, "I live in Rome.")
    registry = gateway.runs.metrics.registry

    def names() -> set[str]:
        samples = (sample.name for family in registry.collect() for sample in family.samples)
        return {name for name in samples if not name.endswith("_created")}

    await until(lambda: "threadkeep_queue_turns" in names())
    return names()


class TestMetrics:
    def test_the_dashboard_shows_what_is_exported(self, metrics: set[str]):
        dashboard = json.loads((DEPLOY / "grafana" / "threadkeep.json").read_text())
        shown = {
            name
            for panel in dashboard["panels"]
            for target in panel["targets"]
            for name in METRIC.findall(target["expr"])
        }

        assert shown <= metrics
        exported = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics}
        assert exported == {re.sub(r"_bucket$", "", name) for name in shown}

    def test_alerts_watch_what_is_exported(self, metrics: set[str]):
        """Each has a section of the page of incidents."""
        rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
        named = {name for rule in rules for name in METRIC.findall(rule["expr"])}
        page = (ROOT / "docs" / "incidents.md").read_text()

        assert named <= metrics
        assert named >= WATCHED_BY_ALERTS
        assert [rule["alert"] for rule in rules if f"## {rule['alert']}\n" not in page] == []

    def test_the_page_of_the_gateway_names_them(self, metrics: set[str]):
        documented = set(METRIC.findall((ROOT / "docs" / "gateway.md").read_text()))
        exported = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics}

        assert exported - documented == set()


class TestSettings:
    @pytest.mark.parametrize(
        "path",
        [
            "Dockerfile",
            "compose.yaml",
            "compose.sqlite.yaml",
            *(str(path.relative_to(ROOT)) for path in sorted(DEPLOY.rglob("*")) if path.is_file()),
        ],
    )
    def test_every_variable_is_one_of_the_code(self, path: str):
        assert set(VARIABLE.findall((ROOT / path).read_text())) <= variables()

    def test_values_of_the_chart_are_valid(self, monkeypatch: pytest.MonkeyPatch):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        for name, value in {**values["settings"], **values["gateway"]["settings"]}.items():
            assert isinstance(value, str), name
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LANGGRAPH_STORE_POSTGRES_DSN", "postgresql://db/memory")

        settings, gateway = Settings.load(), GatewaySettings.load()

        assert settings.store_type == "postgres"
        assert settings.migrate == "check"
        assert settings.workers == 0
        grace = values["terminationGracePeriodSeconds"]
        assert grace > values["preStopSeconds"] + gateway.drain_seconds + STOP_SECONDS

    @pytest.mark.parametrize("name", ["compose.yaml", "compose.sqlite.yaml"])
    def test_containers_are_confined_and_have_no_secret_in_their_environment(self, name: str):
        services = yaml.safe_load((ROOT / name).read_text())["services"]
        own = {key: service for key, service in services.items() if service.get("image") == "threadkeep"}

        assert own
        for service in own.values():
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert int(service["stop_grace_period"].removesuffix("s")) > LONGEST_STOP
            assert not [key for key in service["environment"] if key.endswith(("_DSN", "_KEY", "_PASSWORD"))]


class TestImage:
    def test_its_packages_are_those_of_the_lock(self):
        """The file is written by a tool; every line has a hash."""
        command = [sys.executable, "-m", "tools.image_requirements", "--check"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stderr
        entries = re.split(r"\n(?=\S)", (DEPLOY / "requirements.txt").read_text().strip())[1:]
        assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
        assert not [entry for entry in entries if entry.startswith(("pytest", "hypothesis", "ruff"))]

    def test_each_version_of_a_package_is_there(self):
        """A package has one for each range of Pythons: of NumPy there are two in the lock."""
        lock = image_requirements.locked((ROOT / "requirements.lock").read_text())
        text = (DEPLOY / "requirements.txt").read_text()

        assert lock["numpy"].count("numpy==") == 2
        assert lock["numpy"] in text

    def test_the_version_of_the_chart_is_that_of_the_package(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

        assert chart["appVersion"] == threadkeep.__version__

    @pytest.mark.parametrize("name", ["gateway", "worker", "migration"])
    def test_units_stop_with_time_to_drain(self, name: str):
        text = (DEPLOY / "systemd" / f"threadkeep-{name}.service").read_text()

        assert "ProtectSystem=strict" in text
        assert "\nUser=threadkeep\n" in text
        if name != "migration":
            assert int(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) > LONGEST_STOP
            assert "KillMode=mixed" in text
            assert "RestartPreventExitStatus=2" in text

    def test_no_template_repeats_the_port_of_a_setting(self):
        """A deployment that sets another one has its metrics scraped there, and probes that find the process."""
        port = yaml.safe_load((CHART / "values.yaml").read_text())["settings"]["THREADKEEP_METRICS_PORT"]
        texts = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}

        assert [name for name, text in texts.items() if port in text] == []
        assert {name for name, text in texts.items() if "$settings.THREADKEEP_METRICS_PORT" in text} == {
            "gateway.yaml",
            "worker.yaml",
        }

    @pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
    def test_the_chart_takes_the_port_of_metrics_from_the_settings(self):
        """The worker's own setting is stronger than the common one."""
        options = ("settings.THREADKEEP_METRICS_PORT=9500", "worker.settings.THREADKEEP_METRICS_PORT=9600")
        command = [
            "helm",
            "template",
            "memory",
            str(CHART),
            *(word for one in options for word in ("--set-string", one)),
        ]
        objects = yaml.safe_load_all(subprocess.run(command, capture_output=True, check=True).stdout)
        ports: dict[str, tuple[str, int]] = {}
        for one in objects:
            if one and one["kind"] == "Deployment":
                pod = one["spec"]["template"]
                (port,) = [each for each in pod["spec"]["containers"][0]["ports"] if each["name"] == "metrics"]
                scraped = pod["metadata"]["annotations"]["prometheus.io/port"]
                ports[one["metadata"]["name"]] = scraped, port["containerPort"]

        assert ports == {"memory-gateway": ("9500", 9500), "memory-worker": ("9600", 9600)}

    @pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
    @pytest.mark.parametrize("options", [[], ["--set", "ingress.enabled=true,gateway.autoscaling.enabled=true"]])
    def test_the_chart_is_rendered(self, options: list[str]):
        """Every object is one of Kubernetes, and each container is confined."""
        assert subprocess.run(["helm", "lint", "--strict", str(CHART)], check=False).returncode == 0
        done = subprocess.run(["helm", "template", "memory", str(CHART), *options], capture_output=True, check=True)
        objects: list[Any] = [one for one in yaml.safe_load_all(done.stdout) if one]
        kinds = {one["kind"] for one in objects}

        assert kinds >= {"Deployment", "Service", "Job", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
        assert ("Ingress" in kinds) == bool(options)
        for one in objects:
            if one["kind"] in ("Deployment", "Job"):
                pod = one["spec"]["template"]["spec"]
                assert pod["automountServiceAccountToken"] is False
                assert pod["securityContext"]["runAsUser"] == 10001
                assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in pod["containers"])
