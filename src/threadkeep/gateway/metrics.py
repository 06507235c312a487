"""What Prometheus reads of this process. No label holds an owner, a thread or a text: each has a few values only."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from threadkeep.errors import SettingsError
from threadkeep.observability import log
from threadkeep.process_state import LoopLag

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

OUTCOMES: Final = ("done", "interrupted", "cancelled", "error", "restarting")
REASONS: Final = ("overloaded", "restarting", "too_many_requests", "too_many_turns")
CAUSES: Final = ("embedder", "vectors", "reranker", "timeout", "storage", "record", "other")
"""Why a turn was answered with less: the parts that recall names, and ``record``: it will not be learnt from."""

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class GatewayMetrics:
    """The metrics of one gateway.

    Args:
        active: Returns how many runs are in progress.
        waiting: Returns how many wait for a place.

    Attributes:
        registry: What an exporter reads.
        loop_lag: Measures the event loop of the server.
    """

    def __init__(self, active: Callable[[], int], waiting: Callable[[], int]) -> None:
        self.registry = registry = CollectorRegistry()
        self._turns = Counter("threadkeep_turns", "Turns that ended.", ["outcome"], registry=registry)
        self._seconds = Histogram(
            "threadkeep_turn_seconds", "From admission to done.", buckets=_SECONDS, registry=registry
        )
        self._first_token = Histogram(
            "threadkeep_first_token_seconds", "From admission to the first token.", buckets=_SECONDS, registry=registry
        )
        self._recalls = Counter(
            "threadkeep_recalls", "Recalls, with memories or without.", ["result"], registry=registry
        )
        self._degraded = Counter("threadkeep_degraded", "Turns answered with less.", ["cause"], registry=registry)
        self._refused = Counter("threadkeep_refused", "Refused requests.", ["reason"], registry=registry)
        Gauge("threadkeep_runs_active", "Runs in progress.", registry=registry).set_function(active)
        Gauge("threadkeep_runs_waiting", "Runs that wait for a place.", registry=registry).set_function(waiting)
        self.loop_lag = LoopLag()
        lag = Gauge("threadkeep_server_loop_lag_seconds", "Delay of the server's event loop.", registry=registry)
        lag.set_function(lambda: self.loop_lag.seconds)
        for counter, values in (
            (self._turns, OUTCOMES),
            (self._recalls, ("hit", "empty")),
            (self._degraded, CAUSES),
            (self._refused, REASONS),
        ):
            for value in values:
                counter.labels(value)  # 0 from the start, so that a rate is right from the first event on

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many turns ended in which way, were answered with less, and how many requests were refused."""
        counters = {"turns": self._turns, "degraded": self._degraded, "refused": self._refused}
        return {name: _counted(counter) for name, counter in counters.items()}

    def end_turn(self, outcome: str, seconds: float, *, unrecorded: bool) -> None:
        """Count a turn that ended; *unrecorded*: it was to be learnt from, and will not be."""
        self._turns.labels(outcome).inc()
        self._seconds.observe(seconds)
        if unrecorded:
            self._degraded.labels("record").inc()

    def first_token(self, seconds: float) -> None:
        """Note how long a user waited for the first word of a reply."""
        self._first_token.observe(seconds)

    def recalled(self, event: Mapping[str, Any]) -> None:
        """Count what the event ``memory_recalled`` tells."""
        self._recalls.labels("hit" if event["memories"] else "empty").inc()
        for cause in {one if one in CAUSES else "other" for one in event["degraded"]}:
            self._degraded.labels(cause).inc()

    def refused(self, code: str) -> None:
        """Count a refused request, if *code* is the code of a refusal."""
        if code in REASONS:
            self._refused.labels(code).inc()


def _counted(counter: Counter) -> dict[str, int]:
    """Return the count of each value of the only label of *counter*."""
    samples = [sample for family in counter.collect() for sample in family.samples if sample.name.endswith("_total")]
    return {next(iter(sample.labels.values())): int(sample.value) for sample in samples}


def export_metrics(registry: CollectorRegistry, host: str, port: int, *, processes: int) -> Callable[[], None]:
    """Serve ``/metrics`` in a thread, and return what ends that.

    Args:
        registry: What to serve.
        host: The address to bind.
        port: The port; of several processes each takes the first free one from it on.
        processes: How many processes serve metrics.

    Raises:
        SettingsError: The ports are taken.
    """
    for number in range(port, port + processes):
        with suppress(OSError):  # taken, by another process of ours or by a stranger
            server, thread = start_http_server(number, host, registry)
            log.info("Metrics are at http://%s:%s/metrics", host, number)
            return partial(_stop, server, thread)
    raise _no_port(port, host)


def require_port(host: str, port: int, *, processes: int) -> None:
    """Raise what :func:`export_metrics` would, without serving anything."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, port + processes):
        with suppress(OSError), socket.create_server((host, number), family=family):
            return
    raise _no_port(port, host)


def _no_port(port: int, host: str) -> SettingsError:
    msg = f"THREADKEEP_METRICS_PORT is {port}, and no port from it on can be bound at {host}; choose a free one."
    return SettingsError(msg, variable="THREADKEEP_METRICS_PORT")


def _stop(server: Any, thread: threading.Thread) -> None:
    server.shutdown()
    server.server_close()
    thread.join()
