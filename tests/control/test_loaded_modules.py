"""What a start loads: each of these packages takes longer to import than a request to plan."""

from __future__ import annotations

import subprocess
import sys


def loaded(*modules: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, {', '.join(modules)}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stdout.split())


def test_a_supervisor_does_not_load_the_reader_of_cluster_files() -> None:
    found = loaded(
        "psclust.control.supervisor_process",
        "psclust.control.remote_transport",
        "psclust.control.supervisor_service",
    )
    assert "grpc" in found
    assert not found & {"pydantic", "yaml", "psclust.spec.cluster_file"}


def test_the_command_loads_no_supervisor_before_it_forks_one() -> None:
    found = loaded("psclust.cli.verbs.up", "psclust.cli.starting")
    assert "psclust.launch.held_run" in found
    assert not found & {
        "grpc",
        "psclust.control.supervisor_process",
        "psclust.supervise.supervisor",
    }
