"""The metrics of a run: those of docs/metrics.md, counters that never fall, and one look for
scrapes at once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from psclust.control import run_metrics
from psclust.control.run_metrics import RunMetrics
from psclust.errors import RunEndedError
from psclust.supervise.reading import Reading
from psclust.transport.gpu_usage import GpuUsage
from psclust.transport.task_usage import Usage

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
KNOWN = {
    "step": 7,
    "step_age_s": 1.5,
    "examples_per_s": 10.0,
    "loss": 0.5,
    "staleness": 2.0,
    "barrier_s": 3.0,
    "strangers": 4,
}


def reading(task: str, usage: Usage | None = None, **known: object) -> Reading:
    return Reading(
        **{
            "task": task,
            "role": "program",
            "host": "a",
            "state": "running",
            "attempt": 1,
            "usage": usage,
            **known,
        }
    )  # type: ignore[arg-type]


class Run:
    """Readings that a test sets."""

    def __init__(self, *readings: Reading) -> None:
        self.now = readings
        self.looks = 0
        self.registry = CollectorRegistry()
        self.registry.register(RunMetrics("digits", self.look, lambda: 1000.0))
        self.looks = 0

    def look(self) -> tuple[Reading, ...]:
        self.looks += 1
        return self.now

    def scrape(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Name of a sample -> the values of its labels but the cluster -> its value."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(generate_latest(self.registry).decode()):
            for sample in family.samples:
                labels = tuple(
                    value for name, value in sorted(sample.labels.items()) if name != "cluster"
                )
                found.setdefault(sample.name, {})[labels] = sample.value
        return found


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape looks again."""
    monkeypatch.setattr(run_metrics, "_REUSED_S", 0.0)


def test_the_page_names_each_metric_with_its_type_labels_and_meaning() -> None:
    run = Run(reading("worker:0", Usage(1.0, 2, {1: (3, 4)}, GpuUsage(5, 0.5)), **KNOWN))
    families = list(text_string_to_metric_families(generate_latest(run.registry).decode()))
    served = {}
    for family in families:
        (name,) = {sample.name for sample in family.samples}
        served[name] = (family.type, set(family.samples[0].labels), family.documentation)
    rows = re.findall(
        r"^\| `(psclust_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    written = {name: (kind, set(re.findall(r"\w+", labels))) for name, kind, labels, _ in rows}
    assert written == {name: (kind, labels) for name, (kind, labels, _) in served.items()}
    shortened = {
        name: re.sub(r" of an? [\w -]+ training|[,;] what they share.*|; falls.*", "", meaning)
        for name, _, _, meaning in rows
    }
    assert shortened == {name: meaning for name, (_, _, meaning) in served.items()}


def test_names_follow_the_rules_of_prometheus() -> None:
    for family in text_string_to_metric_families(
        generate_latest(
            Run(reading("worker:0", Usage(sockets={}, gpu=GpuUsage(5, 0.5)), **KNOWN)).registry
        ).decode()
    ):
        name = family.samples[0].name
        assert re.fullmatch(r"psclust_[a-z_]+", name)
        assert name.endswith("_total") == (family.type == "counter")
        assert not re.search(r"_(ms|kb|mb|minutes|percent)(_|$)", name)


def test_a_task_without_a_number_has_no_sample_and_states_are_counted() -> None:
    found = Run(
        reading("ps:0"),
        reading("worker:0", state="frozen"),
        reading("worker:1", state="backoff", attempt=3),
    ).scrape()
    assert "psclust_task_loss" not in found
    assert "psclust_task_cpu_seconds_total" not in found
    assert found["psclust_task_restarts_total"] == {
        ("a", "ps", "ps:0"): 0,
        ("a", "worker", "worker:0"): 0,
        ("a", "worker", "worker:1"): 2,
    }
    counts = {labels: value for labels, value in found["psclust_tasks"].items() if value}
    assert counts == {("ps", "running"): 1, ("worker", "frozen"): 1, ("worker", "backoff"): 1}
    assert ("worker", "running") in found["psclust_tasks"]
    assert found["psclust_run_start_time_seconds"] == {(): 1000.0}


@pytest.mark.usefixtures("at_once")
def test_counters_never_fall_when_connections_close_children_end_or_a_task_starts_again() -> None:
    run = Run(reading("worker:0", Usage(5.0, 1, {1: (100, 10), 2: (7, 7)})))
    place = ("a", "worker", "worker:0")

    def counters() -> tuple[float, ...]:
        found = run.scrape()
        names = ("cpu_seconds", "sent_bytes", "received_bytes")
        return tuple(found[f"psclust_task_{name}_total"][place] for name in names)

    assert counters() == (5.0, 107.0, 17.0)
    run.now = (reading("worker:0", Usage(4.0, 1, {1: (150, 20)})),)
    assert counters() == (5.0, 157.0, 27.0)
    run.now = (reading("worker:0", Usage(1.0, 1, {9: (1, 2)}), attempt=2),)
    assert counters() == (6.0, 158.0, 29.0)
    run.now = (reading("worker:0", state="done", attempt=2),)
    assert counters() == (6.0, 158.0, 29.0)


def test_two_scrapes_at_once_look_once() -> None:
    run = Run(reading("worker:0", Usage(1.0)))
    both = Barrier(2)

    def scrape(_: int) -> bytes:
        both.wait()
        return generate_latest(run.registry)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(scrape, range(2))
    assert first == second
    assert run.looks == 1


def test_an_ended_run_has_no_metrics() -> None:
    def ended() -> tuple[Reading, ...]:
        raise RunEndedError("the run has ended")

    assert list(RunMetrics("digits", ended, lambda: 0.0).collect()) == []
