"""Secrets are read from the files that their variables with ``_FILE`` name."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadkeep.errors import SettingsError
from threadkeep.gateway.settings import GatewaySettings
from threadkeep.settings import SECRET_FILE, Settings, load_settings, resolved, secret_file_variables

DSN = "LANGGRAPH_STORE_POSTGRES_DSN"


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a secret, in the working directory."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "secret"
    file.write_text("postgresql://u:hunter2@db/memory\n")
    return file


def test_a_secret_is_read_from_its_file(secret: Path, monkeypatch: pytest.MonkeyPatch):
    """Without the line break at its end; ``threadkeep doctor`` shows where it is from, and masks it."""
    monkeypatch.setenv(f"{DSN}_FILE", str(secret))

    settings = Settings.load()

    assert settings.store_postgres_dsn is not None
    assert settings.store_postgres_dsn.get_secret_value() == "postgresql://u:hunter2@db/memory"
    row = next(row for row in resolved(settings) if row.variable == DSN)
    assert (row.value, row.origin) == ("********", f"{DSN}_FILE")


@pytest.mark.parametrize("settings", [Settings, GatewaySettings])
def test_the_variable_of_every_file_is_looked_for(settings: type[Settings | GatewaySettings]):
    files = secret_file_variables(settings)

    assert files
    assert [name for name in files if not SECRET_FILE.search(name)] == []


def test_each_name_of_a_secret_has_a_file(secret: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POSTGRES_DSN_FILE", str(secret))

    assert Settings.load().store_postgres_dsn is not None


def test_the_env_file_names_it_for_the_gateway_too(secret: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("THREADKEEP_CLIENT_SECRET", raising=False)
    Path(".env").write_text(f"THREADKEEP_CLIENT_SECRET_FILE={secret}\nTHREADKEEP_MAX_RUNS=7\n")

    settings = GatewaySettings.load()

    assert settings.client_secret is not None
    assert settings.client_secret.get_secret_value().startswith("postgresql://")
    assert settings.max_runs == 7
    assert load_settings(Settings).store_postgres_dsn is None


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({f"{DSN}_FILE": "missing"}, f"{DSN}_FILE names a file that cannot be read"),
        ({f"{DSN}_FILE": "empty"}, f"{DSN}_FILE names an empty file"),
        ({f"{DSN}_FILE": "secret", "POSTGRES_DSN": "postgresql://db"}, "are both set"),
    ],
)
def test_what_cannot_be_read_is_named(
    secret: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], sentence: str
):
    secret.with_name("empty").write_text(" \n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError, match=sentence) as refused:
        Settings.load()

    assert "hunter2" not in str(refused.value)
