"""A server with TLS, before one without."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Certificate(NamedTuple):
    """A certificate for 127.0.0.1 that signs itself, and its key, as files."""

    path: Path
    key: Path


def certificate_in(folder: Path) -> Certificate:
    """Make a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    made.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def port_of(url: str) -> int:
    """Return the port of a server on loopback."""
    return int(url.rpartition(":")[2].partition("/")[0])


SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""What a client of PostgreSQL says before TLS begins; the server answers ``S``."""


@asynccontextmanager
async def tls(port: int, certificate: Certificate, *, asked_for: bool = False) -> AsyncIterator[str]:
    """Put TLS before the server at *port* of loopback; yield the address.

    Args:
        port: The server's.
        certificate: What clients are shown.
        asked_for: TLS begins when the client asks for it, as PostgreSQL's do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    serving: set[asyncio.Task[object]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            serving.add(task)
        if asked_for:
            assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST
            writer.write(b"S")
            try:
                await writer.start_tls(context)
            except (ssl.SSLError, OSError):  # a client that trusts nobody
                writer.close()
                return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    plain = None if asked_for else context
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=plain) as listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    if asked_for:
        await asyncio.gather(*serving, return_exceptions=True)
