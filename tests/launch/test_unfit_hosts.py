"""Hosts that cannot take part in a cluster, or only as they are: said of all at once, before
anything starts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from on_hosts import PATIENT, left, make_environment, write_file

import psclust
from beds.command import CommandBed
from beds.hosts import HostBed
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


def _older_psclust(folder: Path) -> Path:
    """A folder to import psclust 0.0.9 from."""
    shutil.copytree(
        Path(psclust.__file__).parent,
        folder / "psclust",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    init = folder / "psclust" / "__init__.py"
    init.write_text(
        init.read_text().replace(f'__version__ = "{psclust.__version__}"', '__version__ = "0.0.9"')
    )
    return folder


def test_all_that_keeps_hosts_from_taking_part_is_said_at_once_and_nothing_is_started(
    far: CommandBed, hosts: HostBed
) -> None:
    first, second, third, _ = hosts.hosts
    make_environment(first.home / "mine")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(second.home / "mine")], check=True
    )
    papers = third.home / "other" / "tensorflow-2.20.0.dist-info"
    papers.mkdir(parents=True)
    (papers / "top_level.txt").write_text("tensorflow\n")
    (papers.parent / "tensorflow").mkdir()
    (papers.parent / "tensorflow" / "__init__.py").touch()
    make_environment(third.home / "mine", f"{third.own_home}/other")
    closed = {"name": "h4", "port": 2222}
    write_file(far, hosts, PATIENT, hosts=["h1", "h2", "h3", closed], python="~/mine/bin/python")
    said = far.fails(3, "up")
    told = {
        host: [line for line in said.splitlines() if line.startswith(f"psclust: {host}: ")]
        for host in ("h1", "h2", "h3", "h4")
    }
    assert told["h1"] == []
    assert f"no TensorFlow for {second.own_home}/mine/bin/python" in told["h2"][0]
    assert "TensorFlow 2.20.0, elsewhere 2.21.0. Versions must be equal." in told["h3"][0]
    assert "refused" in told["h4"][0]
    # What looked at them ends with its connection.
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    for host in hosts.hosts:
        assert not (host.home / ".local").exists()
        shutil.rmtree(host.home / "mine", ignore_errors=True)


def test_an_interpreter_in_somebodys_home_is_the_one_of_each_host(
    far: CommandBed, hosts: HostBed
) -> None:
    for host in hosts.hosts:
        make_environment(host.home / "mine")
    write_file(
        far, hosts, "import sys; print('this has', sys.prefix)\n", python="~/mine/bin/python"
    )
    said = far.done("up")
    for host in hosts.hosts:
        assert f"this has {host.own_home}/mine\n" in said
    assert said.count("this has ") == 4


@pytest.mark.long
def test_another_psclust_that_the_python_of_a_host_always_imports_is_in_nobodys_way(
    far: CommandBed, hosts: HostBed
) -> None:
    for host in hosts.hosts:
        _older_psclust(host.home / "old")
        make_environment(
            host.home / "early",
            f"import sys; sys.path.insert(0, '{host.own_home}/old'); import psclust.errors",
        )
    write_file(far, hosts, "print('done')\n", python="~/early/bin/python")
    assert far.done("up").count("| done") == 4


def test_a_run_of_another_version_is_seen_and_ended_but_not_changed(
    bed: CommandBed, tmp_path: Path
) -> None:
    older = {"PYTHONPATH": str(_older_psclust(tmp_path / "old"))}
    bed.write("train.py", PATIENT)
    bed.write("psclust.yaml", "{jobs: {worker: 1}, program: train.py, preload: false}")
    bed.done("up", "-d", env=older)
    assert "running" in bed.done("ps")
    said = bed.fails(2, "up", "--env", "A=1")
    assert f"bed is up, started by psclust 0.0.9, and this is {psclust.__version__}" in said
    bed.done("down")
