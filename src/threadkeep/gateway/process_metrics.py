"""What Prometheus reads of the memory in this process: a gateway and a worker export the same names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from threadkeep.observability import BOUNDS_SECONDS, Measured

if TYPE_CHECKING:
    from threadkeep.process_state import ProcessMonitor, ProcessState, QueueState

HISTOGRAMS: Final = {
    "recall.seconds": ("threadkeep_recall_seconds", "From the question to the block of memories."),
    "record.seconds": ("threadkeep_record_seconds", "Committing the record of a turn."),
    "checkpoint.seconds": ("threadkeep_checkpoint_seconds", "Committing the checkpoints of a step."),
    "capture.lag_seconds": ("threadkeep_capture_lag_seconds", "From the end of a turn to what was learnt from it."),
}
"""Durations of the library, with the names that they are exported under."""

COUNTERS: Final = {
    "threadkeep_learning": ("Turns by what became of them.", "result", "capture", ("processed", "retried", "parked")),
    "threadkeep_proposals": (
        "Proposals by what became of them.",
        "event",
        "proposals",
        ("made", "approved", "rejected", "expired"),
    ),
}
"""Counters of the library: help, label, the beginning of its names, and the values of the label."""

STATES: Final = ("waiting", "running", "dead")
_NO_TIMES: Final = Measured()


class ProcessCollector(Collector):
    """Exports the state of a memory.

    Args:
        monitor: Watches the memory.
    """

    def __init__(self, monitor: ProcessMonitor) -> None:
        self._monitor = monitor

    @override
    def collect(self) -> Iterator[Metric]:
        state = self._monitor.state()
        for name, (exported, text) in HISTOGRAMS.items():
            yield _histogram(exported, text, state.measured.get(name, _NO_TIMES))
        for exported, (text, label, prefix, values) in COUNTERS.items():
            counter = CounterMetricFamily(exported, text, labels=[label])
            for value in values:
                counter.add_metric([value], state.counts.get(f"{prefix}.{value}", 0))
            yield counter
        yield from _totals(state)
        yield from _gauges(state)
        if state.queue is not None:
            yield from _queue(state.queue)


def _histogram(name: str, text: str, times: Measured) -> Metric:
    buckets = [(str(bound), float(count)) for bound, count in zip(BOUNDS_SECONDS, times.buckets, strict=True)]
    family = HistogramMetricFamily(name, text)
    family.add_metric([], [*buckets, ("+Inf", float(times.count))], times.seconds)
    return family


def _totals(state: ProcessState) -> Iterator[Metric]:
    loaded, waited = "Indexes of owners that were not in RAM.", "Seconds that storage calls waited in the process."
    yield CounterMetricFamily("threadkeep_index_loads", loaded, state.counts.get("index.loaded", 0))
    yield CounterMetricFamily("threadkeep_storage_wait_seconds", waited, state.waited_seconds)


def _gauges(state: ProcessState) -> Iterator[Metric]:
    for name, text, value in (
        ("threadkeep_index_bytes", "RAM of all indexes.", state.index_bytes),
        ("threadkeep_index_limit_bytes", "RAM from which on indexes are dropped.", state.index_limit_bytes),
        ("threadkeep_pool_connections", "The largest number of connections.", state.connections),
        ("threadkeep_pool_connections_in_use", "Connections in use.", state.connections_in_use),
        ("threadkeep_storage_calls_waiting", "Storage calls that wait in the process.", state.calls_waiting),
        ("threadkeep_memory_loop_lag_seconds", "Delay of the memory's event loop.", state.loop_lag_seconds),
    ):
        yield GaugeMetricFamily(name, text, value)


def _queue(queue: QueueState) -> Iterator[Metric]:
    turns = GaugeMetricFamily("threadkeep_queue_turns", "Recorded turns, of all processes.", labels=["state"])
    for name in STATES:
        turns.add_metric([name], getattr(queue, name))
    yield turns
    oldest, open_ = "Age of the oldest turn that is not dead.", "Proposals that wait for a decision."
    yield GaugeMetricFamily("threadkeep_queue_oldest_seconds", oldest, queue.oldest_seconds)
    yield GaugeMetricFamily("threadkeep_proposals_open", open_, queue.open_proposals)
