"""Two clusters that have only their name in common: one folder's `up` leaves the other's run
alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from beds.command import CommandBed
from psclust.rundir.origin import Origin

FILE = "jobs: {worker: 1}\nprogram: patient.py\npreload: false\n"
PATIENT = "import time\nwhile True: time.sleep(0.02)\n"
Elsewhere = Callable[[str], CommandBed]


@pytest.fixture
def elsewhere(bed: CommandBed) -> Elsewhere:
    """Another folder in which the command has the same state directory."""

    def make(place: str) -> CommandBed:
        folder = bed.folder.parent / place
        folder.mkdir(parents=True)
        return replace(bed, folder=folder, environ={"PSCLUST_STATE": str(bed.state)})

    return make


@pytest.mark.process
def test_up_leaves_a_live_run_of_another_folder_alone_and_says_whose_it_is(
    bed: CommandBed, elsewhere: Elsewhere
) -> None:
    other = elsewhere("elsewhere/bed")
    for each in (bed, other):
        each.write("patient.py", PATIENT)
        each.write("psclust.yaml", FILE)
    bed.done("up", "-d")
    pid = bed.wait_for("worker:0", "running").pid
    for verb in (["up", "-d"], ["plan"], ["up", "-d", "patient.py", "--other"]):
        said = other.fails(2, *verb)
        assert f"bed is up already, started from {bed.folder / 'psclust.yaml'}" in said
        assert "--name bed-2" in said
    assert bed.wait_for("worker:0", "running").pid == pid
    other.done("up", "-d", "--name", "bed-2")
    other.done("down", "bed-2")
    bed.done("down")


@pytest.mark.long
@pytest.mark.process
def test_a_cluster_file_is_the_same_from_any_folder_and_two_of_one_name_are_not(
    bed: CommandBed, elsewhere: Elsewhere
) -> None:
    other = elsewhere("other")
    bed.write("patient.py", PATIENT)
    path = bed.write("c.yaml", FILE.replace("patient.py", str(bed.folder / "patient.py")))
    (bed.folder / "link.yaml").symlink_to(path)
    twin = other.write("c.yaml", path.read_text())
    bed.done("up", "-d", "-f", "c.yaml")
    for where, file in ((other, str(path)), (bed, "link.yaml")):
        assert "c is up already" in where.done("up", "--name", "c", "-f", file)
    assert f"started from {path}" in bed.fails(2, "up", "-f", str(twin))
    bed.done("down")


def test_a_file_and_its_absence_are_told_apart_by_the_folder_alone(tmp_path: Path) -> None:
    here = str(tmp_path)
    assert Origin.of("a.yaml", here).is_of(Origin.of(None, here))
    assert not Origin.of("a.yaml", here).is_of(Origin.of("b.yaml", here))
    assert not Origin.of(None, here).is_of(Origin.of(None, str(tmp_path / "x")))
