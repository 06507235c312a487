"""Clients that offer to go on in HTTP/2 are answered in HTTP/1.1, with the body that they sent, if it is whole."""

from __future__ import annotations

import json
import socket
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

from tests.gateway.conftest import Open
from tests.gateway.world import USER, GatewayWorld, owner_of

UPGRADE = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA"}


def request(text: str, *, upgrade: bool = True) -> bytes:
    body = json.dumps({"text": text}).encode()
    headers = {"Host": "gateway", USER: "ana", "Content-Type": "application/json", "Content-Length": len(body)}
    lines = [f"{name}: {value}" for name, value in (headers | (UPGRADE if upgrade else {})).items()]
    return "\r\n".join(("POST /api/memories HTTP/1.1", *lines, "", "")).encode() + body


def kept(gateway: GatewayWorld) -> list[str]:
    return sorted(one.text for one in gateway.tk.sync.memories.list(owner=owner_of("ana")))


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_a_request_with_an_upgrade_keeps_its_body(open_gateway: Open, size: int):
    """However it is cut into pieces, and so do the requests behind it on the connection."""
    gateway = open_gateway()
    address = urlsplit(gateway.origin)
    texts = ["I live in Lisbon.", "I like jazz.", "I have two cats."]
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for text, upgrade in zip(texts, (True, False, True), strict=True):
            sent = request(text, upgrade=upgrade)
            for start in range(0, len(sent), size):
                client.sendall(sent[start : start + size])
            response = HTTPResponse(client)
            response.begin()
            body = response.read()
            assert response.status == 201, body

    assert kept(gateway) == sorted(texts)


def test_a_body_that_is_cut_off_is_not_answered(open_gateway: Open):
    """The client has left: what it meant to send is unknown, and nothing of it is kept."""
    gateway = open_gateway()
    address = urlsplit(gateway.origin)
    lines = json.dumps({"text": "I live in Lisbon."}) + "\n"
    headers = f"Host: gateway\r\n{USER}: ana\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10000\r\n"
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        client.sendall(f"POST /api/memories/import HTTP/1.1\r\n{headers}\r\n{lines}".encode())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(65_536) == b""
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        client.sendall(request("I like jazz."))
        assert client.recv(65_536).startswith(b"HTTP/1.1 201")

    assert kept(gateway) == ["I like jazz."]


def test_requests_that_are_sent_at_once_are_all_answered(open_gateway: Open):
    gateway = open_gateway()
    address = urlsplit(gateway.origin)
    with socket.create_connection((address.hostname or "", address.port or 0)) as client:
        client.sendall(request("I live in Lisbon.") + request("I like jazz."))
        received = b""
        while received.count(b"HTTP/1.1 201") < 2:
            received += client.recv(65_536)

    assert kept(gateway) == ["I like jazz.", "I live in Lisbon."]
