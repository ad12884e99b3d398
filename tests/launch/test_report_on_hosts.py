"""`psclust top` and `psclust report` of tasks on other hosts."""

from __future__ import annotations

import json

import pytest
from on_hosts import PATIENT, write_file

from beds.command import CommandBed
from beds.hosts import HostBed
from psclust.rundir.samples_file import read_samples
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.long]


def test_what_tasks_on_hosts_use_is_known_and_still_after_they_are_gone(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT)
    far.done("up", "-d")
    wait_until(
        lambda: any(
            len(look.tasks) == len(hosts.hosts) for look in read_samples(far.run_folder().samples)
        ),
        what="samples of all hosts",
    )
    assert [
        (row["task"], row["host"], row["memory_bytes"] > 1_000_000, row["sent_bytes_per_s"])
        for row in json.loads(far.done("top", "--json"))
    ] == [(f"worker:{index}", host.name, True, 0.0) for index, host in enumerate(hosts.hosts)]
    far.done("down")
    said = far.done_here("report", "--text")
    rows = [line.split() for line in said.splitlines() if line.startswith("worker:")]
    assert [row[:2] for row in rows] == [
        [f"worker:{index}", host.name] for index, host in enumerate(hosts.hosts)
    ]
    assert all("MB" in row for row in rows)
