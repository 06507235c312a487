"""``threadkeep doctor --service`` names what a service must not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import CliRunner
from threadkeep.cli.installation import NETWORK_FILE_SYSTEMS, file_system, is_default, user_rows
from threadkeep.cli.main import app
from threadkeep.storage.interface import DatabaseUser

MOUNTS = """\
overlay / overlay rw 0 0
/dev/sda1 /data ext4 rw 0 0
nas:/v /data/shared nfs4 rw 0 0
//nas/x /data/with\\040space cifs rw 0 0
"""

SOUND = {
    "THREADKEEP_ISSUERS": "https://issuer.example",
    "THREADKEEP_AUDIENCE": "memory",
    "THREADKEEP_MASTER_KEY": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "EMBEDDINGS_PROVIDER": "none",
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with a SQLite storage in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "sqlite")
    monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(tmp_path / "memory.db"))
    return tmp_path


def broken(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> list[str]:
    """Return the sentences of what is broken; the exit code is 1 if anything is."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["doctor", "--service", "--json"], catch_exceptions=False)
    report = json.loads(done.stdout.splitlines()[-1])
    assert done.exit_code == (0 if report["healthy"] else 1)
    return [row["detail"] for row in report["checks"] if row["state"] == "broken"]


@pytest.mark.usefixtures("data")
class TestDoctor:
    def test_a_sound_one_is_healthy(self, monkeypatch: pytest.MonkeyPatch):
        assert broken(monkeypatch, SOUND) == []

    @pytest.mark.parametrize(
        ("environment", "sentence"),
        [
            ({"THREADKEEP_ISSUERS": "http://issuer.example"}, "http://issuer.example is not https"),
            ({"THREADKEEP_ISSUERS": ""}, "THREADKEEP_SINGLE_USER"),
            (
                {
                    "THREADKEEP_ISSUERS": "",
                    "THREADKEEP_SINGLE_USER": "ana",
                    "THREADKEEP_PUBLIC_URL": "https://memory.example",
                },
                "is open to others",
            ),
            ({"THREADKEEP_MASTER_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}, "THREADKEEP_MASTER_KEY has"),
            ({"THREADKEEP_CHECKPOINT_KEY": "x" * 32}, "THREADKEEP_CHECKPOINT_KEY has a value of an example"),
            ({"THREADKEEP_CLIENT_SECRET": "change-me"}, "THREADKEEP_CLIENT_SECRET has a value of an example"),
            ({"LANGGRAPH_STORE_TYPE": "memory"}, "everything is lost"),
            ({"LANGGRAPH_STORE_TYPE": "", "POSTGRES_DSN": "postgresql://db/m"}, "so this server is not used"),
        ],
    )
    def test_what_a_service_must_not_have_is_named(
        self, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], sentence: str
    ):
        assert [one for one in broken(monkeypatch, {**SOUND, **environment}) if sentence in one]

    @pytest.mark.slow
    def test_a_superuser_that_migrates_by_itself(self, monkeypatch: pytest.MonkeyPatch, postgres_url: str):
        """Both are named, and so is the password of an example."""
        url = postgres_url.replace("postgres@", "postgres:postgres@")
        environment = {**SOUND, "LANGGRAPH_STORE_TYPE": "postgres", "LANGGRAPH_STORE_POSTGRES_DSN": url}

        found = "\n".join(broken(monkeypatch, environment))

        assert "is a superuser" in found
        assert "THREADKEEP_MIGRATE is auto" in found
        assert "LANGGRAPH_STORE_POSTGRES_DSN has a value of an example" in found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/m.db", "ext4"),
        ("/data/shared/m.db", "nfs4"),
        ("/data/sharedd/m.db", "ext4"),
        ("/data/with space/m.db", "cifs"),
        ("/srv/m.db", "overlay"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str):
    assert file_system(Path(path), MOUNTS) == kind
    assert bool(NETWORK_FILE_SYSTEMS.fullmatch(kind)) == (kind in ("nfs4", "cifs"))


@pytest.mark.parametrize(
    "secret", ["postgres", "Change-Me", "password1", "secret!", "short", "0" * 40, "threadkeep2026"]
)
def test_secrets_of_examples_are_known(secret: str):
    assert is_default(secret)


@pytest.mark.parametrize("secret", ["correct horse battery staple", "9f86d081884c7d659a2feaa0c55ad015"])
def test_other_secrets_are_accepted(secret: str):
    assert not is_default(secret)


@pytest.mark.parametrize(
    ("user", "states"),
    [
        (DatabaseUser("app", bypasses=False, changes_tables=False, clock_ahead_seconds=0.1), ["ok", "ok"]),
        (DatabaseUser("app", bypasses=False, changes_tables=True, clock_ahead_seconds=0), ["broken", "ok"]),
        (DatabaseUser("root", bypasses=True, changes_tables=True, clock_ahead_seconds=0), ["broken", "ok"]),
        (DatabaseUser("app", bypasses=False, changes_tables=False, clock_ahead_seconds=9), ["ok", "broken"]),
        (DatabaseUser("app", bypasses=False, changes_tables=False, clock_ahead_seconds=-9), ["ok", "broken"]),
    ],
)
def test_the_user_of_a_database_and_its_clock(user: DatabaseUser, states: list[str]):
    rows = [*user_rows(user, separate=True)]

    assert [row["state"] for row in rows] == states
    if user.clock_ahead_seconds == 9:
        assert "9.0 seconds behind the database" in rows[1]["detail"]
