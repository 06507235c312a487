"""Servers that are a replica, or show a certificate: one sentence that says what to do, and no password."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.storage.postgres_world import commit, connected, database_of, get, note
from tests.storage.tls import Certificate, certificate_in, port_of, tls
from threadkeep.errors import StorageError, StorageReadOnlyError, StorageUnavailableError
from threadkeep_conformance.servers import PostgresServer

pytestmark = [pytest.mark.linux, pytest.mark.slow]


class Standby(PostgresServer):
    """A replica that follows *primary*: read-only, as after a failover that a URL has not heard of."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def prepare(self) -> None:
        """Begin with the primary's data."""
        self.folder.chmod(0o755)
        subprocess.run(
            [
                self.program("pg_basebackup"),
                "-R",
                "-X",
                "stream",
                "-c",
                "fast",
                "-D",
                self._data,
                "-d",
                self._primary.url,
            ],
            check=True,
            capture_output=True,
            env=self.environment(),
            **self._as_user,
        )


async def refusal(url: str) -> StorageError:
    with pytest.raises(StorageError) as refused:
        async with connected(url):
            pass
    assert "sesame" not in f"{refused.value} {refused.value.details}"
    return refused.value


class TestReplica:
    async def test_it_is_refused_and_says_what_to_give(self):
        """It is found to be one at start, before anything is written; a primary that becomes one says so, too."""
        with PostgresServer() as primary:
            async with connected(primary.url) as storage:
                await commit(storage, note("1"))
                with Standby(primary) as standby:
                    refused = await refusal(standby.url.replace("postgres@", "postgres:sesame@"))

                    assert isinstance(refused, StorageReadOnlyError)
                    assert "give the URL of the primary" in str(refused)

                    several = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
                    async with connected(f"{several}?target_session_attrs=read-write") as found:
                        assert await get(found, "1")
                        await commit(found, note("2"))


class TestTls:
    """The wheel's server has no TLS, so that stands before it."""

    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Certificate:
        return certificate_in(tmp_path)

    async def test_a_certificate_of_ones_own_is_trusted_where_it_is_named(
        self, postgres_url: str, certificate: Certificate
    ):
        """``sslrootcert`` says which."""
        async with tls(port_of(postgres_url), certificate, asked_for=True) as address:
            url = f"postgresql://postgres@{address}/{database_of(postgres_url)}"
            async with connected(f"{url}?sslmode=verify-full&sslrootcert={certificate.path}") as storage:
                await commit(storage, note("1"))
                assert await get(storage, "1")

    @pytest.mark.parametrize("trusted", ["system", "other.pem", "none.pem"])
    async def test_untrusted_issuer_is_refused(
        self, postgres_url: str, certificate: Certificate, tmp_path: Path, trusted: str
    ):
        """By the system's certificates, by another one, or by a file that is not there."""
        (tmp_path / "another").mkdir()
        shutil.copy(certificate_in(tmp_path / "another").path, tmp_path / "other.pem")
        root = trusted if trusted == "system" else tmp_path / trusted
        async with tls(port_of(postgres_url), certificate, asked_for=True) as address:
            url = f"postgresql://postgres:sesame@{address}/{database_of(postgres_url)}"
            refused = await refusal(f"{url}?sslmode=verify-full&sslrootcert={root}")

        assert isinstance(refused, StorageUnavailableError)
        assert "No TLS connection" in str(refused)
        assert "sslrootcert" in str(refused)
