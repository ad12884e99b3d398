"""The rules that go by a job's name."""

from __future__ import annotations

import pytest

from psclust.spec.jobs import (
    added_job,
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
