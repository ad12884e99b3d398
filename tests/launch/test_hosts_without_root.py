"""Hosts that are an address and a home each, as they are where tests do not run as root."""

from __future__ import annotations

import json

import pytest
from on_hosts import PATIENT, left, write_file

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.scripts import CLASSIC
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


hosts = hosts_of_file(3, isolated=False)


@pytest.mark.long
def test_a_script_is_sent_to_them_and_trains(apart: CommandBed, hosts: HostBed) -> None:
    apart.write("train.py", CLASSIC)
    said = apart.done("up", "-H", hosts.names, "--ps", "1", "--workers", "2", "train.py")
    assert said.count("trained to") == 2
    assert {(task.address or "").rpartition(":")[0] for task in apart.status().tasks} == {
        "127.0.0.1"  # encrypted, by their forwarders
    }
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    for host in hosts.hosts:
        assert list(host.home.glob(".local/state/psclust/agents/bed/*/*/logs"))


def test_a_detached_run_is_found_again_and_ended(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, jobs={"worker": 3})
    far.done("up", "-d")
    said = far.done("ps", "--json")
    assert [task["host"] for task in json.loads(said)["tasks"]] == ["h1", "h2", "h3"]
    assert sum("train.py" in line for line in left(hosts)) == 3
    far.done("down", "--purge")
