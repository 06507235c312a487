"""Bodies that are no request of JSON-RPC, for every protocol that is spoken over it."""

from __future__ import annotations

from typing import Final

MALFORMED: Final[tuple[bytes, ...]] = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"1",
    b'"ping"',
    b"{}",
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": 7}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "memories/steal"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "' + b"a" * 1_100_000 + b'"}',
    b"\xff\xfe",
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": "\\ud83d\\ud83d", "method": "SendMessage", "params": {}}',
)
