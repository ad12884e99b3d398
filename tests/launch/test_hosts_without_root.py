"""Hosts that are an address and a home each, as they are where tests do not run as root."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from on_hosts import PATIENT, left, write_file
from tensorflow_scripts import CLASSIC

from beds.command import CommandBed
from beds.hosts import HostBed, host_bed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
    with host_bed(tmp_path_factory.mktemp("bed") / "hosts", 3, isolated=False) as hosts:
        yield hosts


@pytest.mark.long
def test_a_script_is_sent_to_them_and_trains(apart: CommandBed, hosts: HostBed) -> None:
    apart.write("train.py", CLASSIC)
    code, said = apart.run("up", "-H", hosts.names, "--ps", "1", "--workers", "2", "train.py")
    assert code == 0, said
    assert said.count("trained to") == 2
    status = apart.status()
    assert status is not None
    assert [(task.address or "").rpartition(":")[0] for task in status.tasks] == [
        host.address for host in hosts.hosts
    ]
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    for host in hosts.hosts:
        assert list(host.home.glob(".local/state/psclust/agents/bed/*/*/logs"))


def test_a_detached_run_is_found_again_and_ended(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, jobs={"worker": 3})
    assert far.run("up", "-d")[0] == 0
    code, said = far.run("ps", "--json")
    assert [task["host"] for task in json.loads(said)["tasks"]] == ["h1", "h2", "h3"]
    assert sum("train.py" in line for line in left(hosts)) == 3
    code, said = far.run("down", "--purge")
    assert code == 0, said


@pytest.mark.long
def test_a_killed_up_ends_the_run(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, jobs={"worker": 3})
    running = far.start("up")
    wait_until(lambda: running.output.count("| up") == 3, what="the programs")
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


def test_what_fails_on_one_is_named(far: CommandBed, hosts: HostBed) -> None:
    write_file(
        far,
        hosts,
        "import os, sys; sys.exit(f'{os.environ[\"PSCLUST_TASK\"]} has had enough')\n",
        jobs={"worker": 3},
    )
    code, said = far.run("up")
    assert code == 1, said
    assert re.search(r"worker:\d has had enough", said), said
