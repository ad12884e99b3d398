"""The hosts that other tests run on are hosts: each its own name, address, processes and files,
reached by a real sshd."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.hosts import BedHost, HostBed, host_bed
from beds.processes import words_of
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


def _ssh(
    bed: HostBed, host: BedHost, *command: str, deadline: int = 10
) -> subprocess.CompletedProcess[str]:
    options = [
        "-F",
        str(bed.home / ".ssh" / "config"),
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={deadline}",
    ]
    return subprocess.run(
        ["ssh", *options, host.name, *command], capture_output=True, text=True, timeout=300
    )


@pytest.fixture(params=[True, False], ids=["namespaces", "loopback"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HostBed]:
    if request.param and os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with host_bed(tmp_path / "hosts", 2, isolated=request.param) as bed:
        yield bed


def test_every_host_is_reached_by_its_name_with_the_keys_of_the_bed(bed: HostBed) -> None:
    for host in bed.hosts:
        assert _ssh(bed, host, "echo $SSH_CONNECTION").stdout.split()[2:] == [
            host.address,
            str(host.port),
        ]


@pytest.fixture
def isolated(tmp_path: Path) -> Iterator[HostBed]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with host_bed(tmp_path / "hosts", 2, isolated=True) as bed:
        yield bed


def test_a_host_has_a_name_processes_and_files_of_its_own(isolated: HostBed) -> None:
    first, second = isolated.hosts
    assert [_ssh(isolated, host, "hostname").stdout.strip() for host in isolated.hosts] == [
        "h1",
        "h2",
    ]
    assert (
        _ssh(isolated, first, "echo here > /tmp/file; echo here > ~/file; pwd").stdout.strip()
        == "/run/home"
    )
    assert (first.home / "file").read_text() == "here\n"
    assert _ssh(isolated, second, "ls /tmp/file ~/file").returncode != 0
    assert not Path("/tmp/file").exists()
    assert str(os.getpid()) not in _ssh(isolated, first, "ls /proc").stdout.split()
    assert _ssh(isolated, first, sys.executable, "-c", "'import psclust; print(1)'").stdout == "1\n"


def test_hosts_reach_each_other_until_one_is_cut_off(isolated: HostBed) -> None:
    first, second = isolated.hosts
    dial = f"timeout 2 bash -c 'exec 3<>/dev/tcp/{second.address}/22 && head -c 4 <&3'"
    assert first.run("sh", "-c", dial) == "SSH-"
    second.cut()
    with pytest.raises(subprocess.CalledProcessError):
        first.run("sh", "-c", dial)
    assert _ssh(isolated, second, "true", deadline=1).returncode == 255
    second.heal()
    assert first.run("sh", "-c", dial) == "SSH-"


def test_sshd_stopped_is_refused_and_a_host_switched_off_has_no_process_left(
    isolated: HostBed,
) -> None:
    first, second = isolated.hosts
    second.stop_sshd()
    wait_until(lambda: "refused" in _ssh(isolated, second, "true").stderr, what="the refusal")
    assert second.run("hostname").strip() == "h2"
    subprocess.Popen(first.command("sleep", "1000"))
    wait_until(
        lambda: any("1000" in words_of(process) for process in first.processes()),
        what="the process",
    )
    processes = first.processes()
    first.switch_off()
    wait_until(
        lambda: (
            not any(process.is_running() and process.status() != "zombie" for process in processes)
        ),
        what="its end",
    )
    # The number of its first process may be given to any other, such as this one.
    first.process.pid = os.getpid()
    assert first.processes() == []


def test_nothing_of_a_bed_is_left(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with host_bed(tmp_path / "hosts", 2) as bed:
        processes = [bed.hosts[0].process.pid, bed.hosts[1].process.pid]
        network = bed.hosts[0].network
        assert network is not None
        own = _links(network.bridge)
        assert len(own) > 2
    assert not own & _links(network.bridge)
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)


def _links(bridge: str) -> set[str]:
    """The numbers of its interfaces, which are not given again; other tests have beds at the same
    time."""
    listed = subprocess.run(
        ["ip", "-o", "link"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.partition(":")[0] for line in listed if re.search(rf"\b{bridge}\b", line)}
