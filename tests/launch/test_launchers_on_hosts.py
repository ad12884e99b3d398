"""Several launchers on the same hosts: of other clusters, of the same one, and such that know
nothing of each other."""

from __future__ import annotations

import socket

import pytest
from on_hosts import PATIENT, left, write_file

from beds.command import CommandBed, Running
from beds.hosts import HostBed
from psclust.testing.wait import PATIENCE_S

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def _addresses(far: CommandBed, name: str) -> set[str]:
    status = far.status(name)
    assert status is not None
    return {task.address for task in status.tasks if task.address}


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S):
            return True
    except ConnectionRefusedError:
        return False


def _codes(racers: list[Running]) -> list[int]:
    return [racer.wait(300) for racer in racers]


@pytest.mark.long
def test_two_clusters_brought_up_at_once_share_no_port_and_end_each_by_itself(
    far: CommandBed, hosts: HostBed
) -> None:
    servers = ("up", "-d", "-H", hosts.names, "--ps", "2", "--workers", "2")
    racers = [far.start(*servers, "--name", name) for name in ("one", "two")]
    assert _codes(racers) == [0, 0], [racer.output for racer in racers]
    one, two = _addresses(far, "one"), _addresses(far, "two")
    assert (len(one), len(two), one & two) == (4, 4, set())
    assert far.run("down", "one")[0] == 0
    assert [_accepts(address) for address in (*one, *two)] == [False] * 4 + [True] * 4
    assert far.run("down", "two")[0] == 0


@pytest.mark.long
def test_two_launchers_that_race_for_one_name_make_one_run(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT)
    racers = [far.start("up", "-d") for _ in range(2)]
    assert _codes(racers) == [0, 0], [racer.output for racer in racers]
    said = [racer.output for racer in racers]
    assert sum("bed is up: 4 workers" in text for text in said) == 1
    assert sum("bed is up already; nothing differs" in text for text in said) == 1
    assert len(far.cluster().runs()) == 1
    assert sum("train.py" in line for line in left(hosts)) == 4
    assert far.run("down")[0] == 0


@pytest.mark.long
def test_launchers_that_know_nothing_of_each_other_do_not_share_a_port(
    far: CommandBed, hosts: HostBed
) -> None:
    # As on two machines: each has a state folder of its own, and takes the same name and the same
    # port.
    folder = far.folder.parent / "elsewhere" / "bed"
    folder.mkdir(parents=True)
    other = CommandBed(folder, far.environ, mark=far.mark)
    for bed in (far, other):
        write_file(bed, hosts, PATIENT, ports=2222)
    racers = [bed.start("up", "-d") for bed in (far, other)]
    assert sorted(_codes(racers)) == [0, 3], [racer.output for racer in racers]
    winner, loser = sorted(
        zip((far, other), racers, strict=True), key=lambda pair: pair[1].process.returncode
    )
    assert f"{hosts[0].address}:2222 is already in use" in loser[1].output
    assert winner[0].wait_for("worker:3", "running").host == "h4"
    assert sum("train.py" in line for line in left(hosts)) == 4
    assert winner[0].run("down")[0] == 0


@pytest.mark.long
def test_a_live_run_keeps_its_hosts(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, jobs={"worker": 2})
    assert far.run("up", "-d", "-H", "h1,h2")[0] == 0
    code, said = far.run("up", "-H", "h1,h3")
    assert code == 2
    assert "hosts: h3: bed is up, on h1, h2, and a live run keeps its hosts" in said
    assert far.run("up", "-H", "h1,h2")[0] == 0
    assert far.run("down")[0] == 0


@pytest.mark.long
def test_a_second_up_changes_only_what_differs(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT)
    assert far.run("up", "-d")[0] == 0
    before = far.wait_for("worker:0", "running")
    write_file(
        far, hosts, PATIENT, jobs={"worker": {"count": 4, "task_env": {"2": {"LEVEL": "debug"}}}}
    )
    code, said = far.run("up")
    assert code == 0, said
    assert "~ worker:2 (env.LEVEL)" in said
    far.wait_for("worker:2", "running", attempt=2)
    after = far.wait_for("worker:0", "running")
    assert (after.pid, after.attempt) == (before.pid, before.attempt)
    assert far.run("down")[0] == 0
