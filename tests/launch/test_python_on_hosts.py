"""Clusters from Python whose tasks are on other hosts."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from on_hosts import PATIENT, left, write_file

from beds.command import CommandBed
from beds.hosts import HostBed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.long]

PROGRAM = """
import os, signal, sys
import psclust

run = psclust.Cluster.from_file("psclust.yaml").up()
print("hosts", *[task.host for task in run.status.tasks], flush=True)
print("said", run.logs("worker:3").strip(), flush=True)
if sys.argv[1] == "down":
    print("ended", run.down().exit_code, flush=True)
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["down", "kill"])
def test_a_program_holds_a_run_on_hosts(far: CommandBed, hosts: HostBed, end: str) -> None:
    write_file(far, hosts, PATIENT)
    far.write("holds.py", PROGRAM)
    code, said = replace(far, command=(sys.executable,)).run("holds.py", end)
    assert "hosts h1 h2 h3 h4\nsaid up\n" in said, said
    assert ("ended 143" in said, code) == ((True, 0) if end == "down" else (False, -9)), said
    if end == "down":
        assert not left(hosts)
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
