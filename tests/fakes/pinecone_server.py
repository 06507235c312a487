"""A server on this machine that speaks the wire forms of Pinecone's data plane, so that the real SDK is tested.

It is a contract, not Pinecone: it refuses what the service refuses (keys, versions, sizes, forms of vectors and
metadata) and does with vectors what is documented of it: upserts, deletions by filter, exact queries. What is
written can stay unseen for a while, requests can be refused, lost and cut short.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final, cast

import numpy as np

from tests.fakes.loopback import LoopbackServer

API_VERSION: Final = "2026-07"

_MOST_BYTES: Final = 2 * 1024 * 1024
_MOST_VECTORS: Final = 1_000
_MOST_ASKED: Final = 10_000
_MOST_METADATA: Final = 40 * 1024
_MOST_ID: Final = 512
_MOST_IN: Final = 10_000


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of requests instead of an answer.

    Attributes:
        status: Answered; 0: the connection is held until the server is closed.
        path: Only of requests to this path; empty: of all.
        times: Of so many.
        headers: Sent with it, such as ``{"Retry-After": "1"}``.
        done: Whether the server does what was asked first, so that only the answer is lost.
    """

    status: int
    path: str = ""
    times: int = 1_000_000
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    done: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came.

    Attributes:
        path: Such as ``/query``.
        headers: Their names in lower case.
        body: What was asked.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class _RefusedError(Exception):
    """The answer is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class _Namespace:
    """Vectors as queries see them, and what was written and is not seen yet."""

    vectors: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    unseen: list[tuple[int, dict[str, Any]]] = field(default_factory=list[tuple[int, dict[str, Any]]])


class _Wire(BaseHTTPRequestHandler):
    served: ClassVar[PineconeServer]
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client is gone
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        if length > _MOST_BYTES:
            status, more, body = 413, {}, {"code": 413, "message": "more than 2 MB"}
        else:
            status, more, body = self.served.answer(Request(self.path, headers, json.loads(raw or b"{}")))
        if not status:
            self.close_connection = True
            return
        encoded = json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in {
                "content-type": "application/json",
                "content-length": str(len(encoded)),
                **more,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(encoded)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):  # the client gave up
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@dataclass(eq=False)
class PineconeServer(LoopbackServer):
    """An index of Pinecone's, as far as the wire goes; give ``host`` and ``api_key`` to the SDK.

    Attributes:
        dimension: Of the index.
        metric: Of the index.
        api_key: The one that is right.
        lag: Queries of a namespace that do not see yet what was written to it.
        takes: Vectors of an upsert that are kept; the others are dropped, as the count says. ``None``: all.
        faults: What goes wrong, in turn.
        requests: What was asked.
    """

    handler = _Wire
    dimension: int
    metric: str = "cosine"
    api_key: str = "pc-right"
    lag: int = 0
    takes: int | None = None
    faults: list[Fault] = field(default_factory=list[Fault])
    requests: list[Request] = field(default_factory=list[Request])
    _namespaces: dict[str, _Namespace] = field(default_factory=dict[str, _Namespace])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        """Where the SDK finds it."""
        return self.origin

    def ids(self, namespace: str | None = None) -> list[str]:
        """Return the ids of everything that is kept, seen or not."""
        with self._guard:
            chosen = [one for name, one in self._namespaces.items() if namespace in (None, name)]
            for one in chosen:
                _show(one, everything=True)
            return sorted(name for one in chosen for name in one.vectors)

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces."""
        with self._guard:
            return sorted(self._namespaces)

    def answer(self, request: Request) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        """Note *request*, and return status, headers and body."""
        with self._guard:
            self.requests.append(request)
            fault = self._fault(request.path)
        if fault is not None and fault.done:
            self._answered(request)
        if fault is not None and not fault.status:
            self.wait_for_release()
        if fault is not None:
            return fault.status, fault.headers, {"code": fault.status, "message": f"told to, {self.api_key}"}
        try:
            return 200, {}, self._answered(request)
        except _RefusedError as error:
            return error.status, {}, {"code": error.status, "message": str(error)}

    def _fault(self, path: str) -> Fault | None:
        for place, fault in enumerate(self.faults):
            if fault.path in ("", path):
                self.faults[place : place + 1] = (
                    []
                    if fault.times <= 1
                    else [Fault(fault.status, fault.path, fault.times - 1, fault.headers, fault.done)]
                )
                return fault
        return None

    def _answered(self, request: Request) -> dict[str, Any]:
        headers, body = request.headers, request.body
        if headers.get("api-key") != self.api_key:
            raise _RefusedError(401, f"Invalid API Key {headers.get('api-key')}")
        if headers.get("x-pinecone-api-version") != API_VERSION:
            raise _RefusedError(400, "unknown API version")
        if "application/json" not in headers.get("content-type", ""):
            raise _RefusedError(415, "not JSON")
        work = {
            "/vectors/upsert": self._upsert,
            "/vectors/delete": self._delete,
            "/query": self._query,
            "/describe_index_stats": self._stats,
        }.get(request.path)
        if work is None:
            raise _RefusedError(404, "no such path")
        with self._guard:
            return work(body)

    def _upsert(self, body: dict[str, Any]) -> dict[str, Any]:
        _require_keys(body, {"vectors", "namespace"})
        vectors: list[dict[str, Any]] = body["vectors"]
        if not 1 <= len(vectors) <= _MOST_VECTORS:
            raise _RefusedError(400, f"{len(vectors)} vectors")
        for one in vectors:
            self._require_vector(one)
        kept = vectors[: self.takes]
        where = self._namespaces.setdefault(body.get("namespace", ""), _Namespace())
        self._write(where, {"put": {one["id"]: one for one in kept}})
        return {"upsertedCount": len(kept)}

    def _require_vector(self, one: dict[str, Any]) -> None:
        _require_keys(one, {"id", "values", "metadata"})
        if not 0 < len(one["id"].encode("ascii")) <= _MOST_ID:
            raise _RefusedError(400, "an id is 1 to 512 ASCII characters")
        self._require_values(one["values"])
        metadata = one.get("metadata", {})
        if len(json.dumps(metadata)) > _MOST_METADATA:
            raise _RefusedError(400, "metadata exceed 40 KB")
        for value in metadata.values():
            listed = isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))
            if not listed and not isinstance(value, str | bool | int | float):
                raise _RefusedError(400, "metadata are texts, numbers, booleans and lists of texts")

    def _require_values(self, values: Sequence[float]) -> None:
        if len(values) != self.dimension:
            raise _RefusedError(400, f"Vector dimension {len(values)} does not match the dimension of the index")
        if not any(values):
            raise _RefusedError(400, "Dense vectors must contain at least one non-zero value")

    def _delete(self, body: dict[str, Any]) -> dict[str, Any]:
        _require_keys(body, {"namespace", "ids", "deleteAll", "filter"})
        if len(body.keys() & {"ids", "deleteAll", "filter"}) != 1:
            raise _RefusedError(400, "exactly one of ids, deleteAll and filter")
        name = body.get("namespace", "")
        if name not in self._namespaces:
            raise _RefusedError(404, "Namespace not found")
        wanted = body.get("filter")
        if wanted is not None:
            _met({}, wanted)
        self._write(self._namespaces[name], {"filter": wanted, "ids": body.get("ids")})
        return {}

    def _query(self, body: dict[str, Any]) -> dict[str, Any]:
        _require_keys(body, {"topK", "includeValues", "includeMetadata", "namespace", "vector", "filter"})
        if not 1 <= body["topK"] <= _MOST_ASKED:
            raise _RefusedError(400, "topK is 1 to 10,000")
        self._require_values(body["vector"])
        wanted: dict[str, Any] = body.get("filter") or {}
        name = body.get("namespace", "")
        _met({}, wanted)
        where = self._namespaces.get(name, _Namespace())
        _show(where)
        rows = [one for one in where.vectors.values() if _met(one.get("metadata", {}), wanted)]
        matches: list[dict[str, Any]] = []
        if rows:
            matrix = np.array([one["values"] for one in rows])
            vector = np.array(body["vector"])
            scores = matrix @ vector / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector))
            order: list[int] = np.argsort(-scores, kind="stable")[: body["topK"]].tolist()
            for place in order:
                match: dict[str, Any] = {"id": rows[place]["id"], "score": float(scores[place])}
                if body.get("includeMetadata"):
                    match["metadata"] = rows[place].get("metadata", {})
                matches.append(match)
        return {"matches": matches, "namespace": name, "usage": {"readUnits": 1}}

    def _stats(self, body: dict[str, Any]) -> dict[str, Any]:
        _require_keys(body, {"filter"})
        counts = {name: {"vectorCount": len(one.vectors)} for name, one in self._namespaces.items()}
        total = sum(one["vectorCount"] for one in counts.values())
        return {
            "namespaces": counts,
            "dimension": self.dimension,
            "indexFullness": 0,
            "totalVectorCount": total,
            "metric": self.metric,
            "vectorType": "dense",
        }

    def _write(self, where: _Namespace, change: dict[str, Any]) -> None:
        where.unseen.append((self.lag, change))
        if not self.lag:
            _show(where, everything=True)


def _require_keys(body: Mapping[str, Any], known: set[str]) -> None:
    if unknown := body.keys() - known:
        raise _RefusedError(400, f"unknown: {', '.join(sorted(unknown))}")


def _show(where: _Namespace, *, everything: bool = False) -> None:
    """Let a query see what has been unseen for long enough, in the order in which it was written."""
    while where.unseen and (everything or where.unseen[0][0] <= 0):
        _, change = where.unseen.pop(0)
        if "put" in change:
            where.vectors.update(change["put"])
        elif change["ids"] is not None:
            for name in change["ids"]:
                where.vectors.pop(name, None)
        elif change["filter"] is None:
            where.vectors.clear()
        else:
            gone = [name for name, one in where.vectors.items() if _met(one.get("metadata", {}), change["filter"])]
            for name in gone:
                del where.vectors[name]
    where.unseen[:] = [(left - 1, change) for left, change in where.unseen]


def _met(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether all conditions are met; every one is looked at, so that an unknown one is refused."""
    met = [_one_met(metadata.get(name), test) for name, test in wanted.items()]
    return all(met)


def _one_met(value: Any, test: Any) -> bool:
    if not isinstance(test, dict) or len(cast("dict[str, Any]", test)) != 1:
        raise _RefusedError(400, "a condition is one operator and its value")
    ((operator, given),) = cast("dict[str, Any]", test).items()
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    if operator == "$eq":
        return given in values
    if operator == "$ne":
        return given not in values
    if operator == "$in":
        if not 1 <= len(given) <= _MOST_IN:
            raise _RefusedError(400, "$in takes 1 to 10,000 values")
        return not set(values).isdisjoint(given)
    if operator == "$lt":
        return isinstance(value, int | float) and value < given
    raise _RefusedError(400, f"unknown operator {operator}")
