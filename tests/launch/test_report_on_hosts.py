"""`psclust report` of tasks on other hosts: all it needs is here."""

from __future__ import annotations

import pytest
from on_hosts import PATIENT, write_file

from beds.command import CommandBed
from beds.hosts import HostBed
from psclust.rundir.samples_file import read_samples
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.long]


def test_what_tasks_on_hosts_used_is_known_after_they_are_gone(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT)
    assert far.run("up", "-d")[0] == 0
    wait_until(
        lambda: any(
            len(look.tasks) == len(hosts.hosts) for look in read_samples(far.run_folder().samples)
        ),
        what="samples of all hosts",
    )
    assert far.run("down")[0] == 0
    code, said = far.run_here("report", "--text")
    assert code == 0
    rows = [line.split() for line in said.splitlines() if line.startswith("worker:")]
    assert [row[:2] for row in rows] == [
        [f"worker:{index}", host.name] for index, host in enumerate(hosts.hosts)
    ]
    assert all("MB" in row for row in rows)
