"""Several launchers on the same hosts: of other clusters, of the same one, and such that know
nothing of each other."""

from __future__ import annotations

import pytest
from on_hosts import PATIENT, left, write_file

from beds.command import CommandBed, Running
from beds.hosts import HostBed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def _codes(racers: list[Running]) -> list[int]:
    return [racer.wait(300) for racer in racers]


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
    assert "127.0.0.1:2222 is already in use" in loser[1].output
    assert winner[0].wait_for("worker:3", "running").host == "h4"
    assert sum("train.py" in line for line in left(hosts)) == 4
    winner[0].done("down")


@pytest.mark.long
def test_a_live_run_keeps_its_hosts(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, jobs={"worker": 2})
    far.done("up", "-d", "-H", "h1,h2")
    said = far.fails(2, "up", "-H", "h1,h3")
    assert "hosts: h3: bed is up, on h1, h2. Hosts join a live run by psclust scale" in said
    far.done("up", "-H", "h1,h2")
    far.done("down")
