"""The rules that go by a job's name."""

from __future__ import annotations

import pytest

from psclust.spec.jobs import (
    added_job,
    is_chief,
    is_in_cluster,
    is_observer,
    replica_jobs,
    server_jobs,
    spec_position,
)
from psclust.spec.program_command import ProgramKind

IN_GRAPH, BETWEEN_GRAPH, COORDINATOR = "in-graph", "between-graph", "coordinator"


@pytest.mark.parametrize(
    ("present", "replication", "program", "added"),
    [
        (["ps", "worker"], IN_GRAPH, ProgramKind.PSCLUST, "client"),
        (["ps", "worker"], IN_GRAPH, ProgramKind.NONE, None),
        (["ps", "worker"], BETWEEN_GRAPH, ProgramKind.PSCLUST, None),
        (["ps", "worker"], COORDINATOR, ProgramKind.SCRIPT, "chief"),
        (["chief", "ps"], COORDINATOR, ProgramKind.SCRIPT, None),
        (["master", "ps"], COORDINATOR, ProgramKind.COMMAND, None),
        (["ps", "worker"], COORDINATOR, ProgramKind.NONE, None),
        (["ps", "worker"], None, ProgramKind.SCRIPT, None),
    ],
)
def test_psclust_adds_a_client_in_graph_and_a_chief_for_a_coordinator(
    present: list[str], replication: str | None, program: ProgramKind, added: str | None
) -> None:
    assert added_job(present, replication, program) == added


def test_chiefs_lead_and_observers_only_read() -> None:
    jobs = ["chief", "master", "client", "ps", "worker", "evaluator", "tensorboard", "trainer"]
    assert [job for job in jobs if is_chief(job)] == ["chief", "master", "client"]
    assert [job for job in jobs if is_observer(job)] == ["evaluator", "tensorboard"]


def test_observers_are_outside_the_cluster_unless_the_file_puts_them_in() -> None:
    assert [is_in_cluster("evaluator", chosen) for chosen in (None, True, False)] == [
        False,
        True,
        False,
    ]
    assert [is_in_cluster("worker", chosen) for chosen in (None, True, False)] == [
        True,
        True,
        False,
    ]


def test_jobs_are_listed_as_tensorflow_programs_list_them() -> None:
    assert sorted(["trainer", "worker", "evaluator", "ps", "chief"], key=spec_position) == [
        "chief",
        "ps",
        "worker",
        "trainer",
        "evaluator",
    ]


def test_in_graph_replicas_are_on_workers_that_only_serve() -> None:
    assert (replica_jobs(IN_GRAPH), server_jobs(IN_GRAPH)) == (("worker",), ("ps", "worker"))
    assert (replica_jobs(BETWEEN_GRAPH), server_jobs(BETWEEN_GRAPH)) == (
        ("chief", "worker"),
        ("ps",),
    )
