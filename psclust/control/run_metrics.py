"""The metrics of a run, for Prometheus: what `psclust top` shows, gathered when it is asked for.
docs/metrics.md is their reference."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import ThreadingHTTPServer

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from psclust.errors import RunEndedError
from psclust.supervise.reading import FROZEN, Reading
from psclust.supervise.run_state import TaskPhase
from psclust.supervise.supervisor import Supervisor
from psclust.transport.task_usage import Usage

_IDLE_S = 30.0  # of a connection, whose thread then ends
_REUSED_S = 1.0  # scrapes that come within this time get the same numbers
_STATES = (*(phase.value for phase in TaskPhase), FROZEN)
_TASK = ("cluster", "task", "job", "host")


@dataclass(frozen=True, slots=True)
class _Used:
    """The usage of a task on a host, over all its attempts there. None: unknown. attempt, last: of
    the last look at its process."""

    attempt: int = 0
    last: Usage | None = None
    cpu_s: float | None = None
    received: float | None = None
    sent: float | None = None


@dataclass(frozen=True, slots=True)
class _Series:
    """A metric with a value for each task that has one."""

    name: str
    meaning: str
    value: Callable[[Reading, _Used], float | None]

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


_SERIES = (
    _Series(
        "psclust_task_restarts_total",
        "Attempts of the task after its first",
        lambda task, used: max(0, task.attempt - 1),
    ),
    _Series(
        "psclust_task_cpu_seconds_total",
        "CPU time of the task and its child processes",
        lambda task, used: used.cpu_s,
    ),
    _Series(
        "psclust_task_resident_memory_bytes",
        "Memory of the task and its child processes",
        lambda task, used: task.usage.memory if task.usage else None,
    ),
    _Series(
        "psclust_task_gpu_memory_bytes",
        "GPU memory of the task",
        lambda task, used: task.gpu.memory,
    ),
    _Series(
        "psclust_task_gpu_busy_ratio",
        "Share of time in which its busiest GPU was at work",
        lambda task, used: task.gpu.busy,
    ),
    _Series(
        "psclust_task_received_bytes_total",
        "Bytes received on TCP connections",
        lambda task, used: used.received,
    ),
    _Series(
        "psclust_task_sent_bytes_total",
        "Bytes sent on TCP connections, and acknowledged",
        lambda task, used: used.sent,
    ),
    _Series(
        "psclust_task_strangers_closed_total",
        "Connections closed because their peers are not of the run",
        lambda task, used: task.strangers,
    ),
    _Series(
        "psclust_task_global_step",
        "The global step that the task knows of",
        lambda task, used: task.step,
    ),
    _Series(
        "psclust_task_step_age_seconds",
        "Time since the step, or what the task does, last changed",
        lambda task, used: task.step_age_s,
    ),
    _Series(
        "psclust_task_examples_per_second",
        "Examples a second of this task",
        lambda task, used: task.examples_per_s,
    ),
    _Series("psclust_task_loss", "Loss of the last step", lambda task, used: task.loss),
    _Series(
        "psclust_task_staleness_steps",
        "Mean over all updates: steps of others between reading and writing",
        lambda task, used: task.staleness,
    ),
    _Series(
        "psclust_task_barrier_wait_seconds_total",
        "Time in the barrier: sending gradients, other workers, the update",
        lambda task, used: task.barrier_s,
    ),
)


class RunMetrics(Collector):
    """Gathers on each scrape, at most once a second. began: when the run began, in seconds since
    the epoch."""

    def __init__(
        self, cluster: str, readings: Callable[[], Sequence[Reading]], began: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._readings = readings
        self._began = began
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._last: Sequence[Reading] = ()
        self._used: dict[tuple[str, str], _Used] = {}

    def collect(self) -> Iterator[Metric]:
        """Nothing once the run has ended: its supervisor, which serves this, is about to exit."""
        with self._lock:
            try:
                self._look()
            except RunEndedError:
                return
            tasks = [
                (reading, self._used.get((reading.task, reading.host), _Used()))
                for reading in self._last
            ]
        began = GaugeMetricFamily(
            "psclust_run_start_time_seconds",
            "When the run began, since the epoch",
            labels=["cluster"],
        )
        began.add_metric([self._cluster], self._began())
        yield began
        yield self._states([reading for reading, _ in tasks])
        for series in _SERIES:
            yield self._family(series, tasks)

    def _look(self) -> None:
        if time.monotonic() - self._looked < _REUSED_S:
            return
        self._last, self._looked = self._readings(), time.monotonic()
        for reading in self._last:
            if reading.usage is not None:
                place = reading.task, reading.host
                self._used[place] = _more(
                    self._used.get(place, _Used()), reading.attempt, reading.usage
                )

    def _states(self, readings: Sequence[Reading]) -> Metric:
        family = GaugeMetricFamily(
            "psclust_tasks",
            "How many tasks of a job are in a state",
            labels=["cluster", "job", "state"],
        )
        for job in dict.fromkeys(_job(reading) for reading in readings):
            for state in _STATES:
                count = sum(_job(reading) == job and reading.state == state for reading in readings)
                family.add_metric([self._cluster, job, state], count)
        return family

    def _family(self, series: _Series, tasks: Sequence[tuple[Reading, _Used]]) -> Metric:
        kind = CounterMetricFamily if series.is_counter else GaugeMetricFamily
        family = kind(series.name, series.meaning, labels=_TASK)
        for reading, used in tasks:
            value = series.value(reading, used)
            if value is not None:
                family.add_metric([self._cluster, reading.task, _job(reading), reading.host], value)
        return family


def _more(before: _Used, attempt: int, now: Usage) -> _Used:
    """A counter must not fall when a connection closes or a child process ends, so increases are
    added up."""
    last = (
        before.last if before.last is not None and before.attempt == attempt else Usage(sockets={})
    )
    cpu_s, received, sent = now.rates(last, 1.0)
    return _Used(
        attempt,
        now,
        _plus(before.cpu_s, cpu_s),
        _plus(before.received, received),
        _plus(before.sent, sent),
    )


def _plus(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0.0) + more


def _job(reading: Reading) -> str:
    return reading.task.partition(":")[0]


def serve_metrics(supervisor: Supervisor, cluster: str, listener: int) -> Callable[[], None]:
    """Serve at a listening socket until the returned function is called. Nothing is gathered but
    when it is asked for."""
    registry = CollectorRegistry(auto_describe=False)
    readings = supervisor.inspection.readings
    registry.register(RunMetrics(cluster, readings, lambda: supervisor.status().began))
    handler = type("Handler", (MetricsHandler,), {"registry": registry, "timeout": _IDLE_S})
    server = ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=listener)
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            server.handle_request()

    def stop() -> None:
        stopping.set()
        server.socket.shutdown(socket.SHUT_RDWR)  # wakes `serve`; the guard has the socket, too

    threading.Thread(target=serve, name="metrics", daemon=True).start()
    return stop
