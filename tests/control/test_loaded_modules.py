"""What a start must not load too soon."""

from __future__ import annotations

import subprocess
import sys


def test_the_command_has_not_loaded_grpc_when_it_forks() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import sys, psclust.cli.starting; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = set(run.stdout.split())
    assert "psclust.control.supervisor_process" in found
    assert "grpc" not in found
