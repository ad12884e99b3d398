"""`psclust top` of tasks on other hosts."""

from __future__ import annotations

import json

import pytest
from on_hosts import PATIENT, write_file

from beds.command import CommandBed
from beds.hosts import HostBed

pytestmark = [pytest.mark.process, pytest.mark.long]


def test_each_host_says_what_its_tasks_use(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT)
    assert far.run("up", "-d")[0] == 0
    code, said = far.run("top", "--json")
    assert code == 0, said
    assert [
        (row["task"], row["host"], row["memory_bytes"] > 1_000_000, row["sent_bytes_per_s"])
        for row in json.loads(said)
    ] == [(f"worker:{index}", host.name, True, 0.0) for index, host in enumerate(hosts.hosts)]
    assert far.run("down")[0] == 0
