"""The nftables rules, loaded on test hosts, keep out other hosts and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import BedHost, HostBed
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.tensorflow,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts with a firewall of their own need root"),
]

FRAGMENT = (Path(__file__).parents[2] / "deploy" / "psclust.nft").read_text(encoding="utf-8")
PORTS = "23000-23099"
Dial = tuple[BedHost, int]


# Two for a cluster, and a stranger.
hosts = hosts_of_file(3)


def load(host: BedHost, members: list[str], ports: str) -> None:
    """As its comments tell an operator: two lines edited, then loaded."""
    text = re.sub(
        r"define psclust_hosts = .*", f"define psclust_hosts = {{ {', '.join(members)} }}", FRAGMENT
    )
    text = re.sub(r"define psclust_ports = .*", f"define psclust_ports = {{ {ports} }}", text)
    subprocess.run(host.command("nft", "-f", "-"), input=text, text=True, check=True)


def reached(source: BedHost, dials: list[Dial], patience: int = 60) -> list[Dial]:
    """Which of them accept a connection within so many seconds."""
    commands = [
        source.command(
            "timeout", str(patience), "bash", "-c", f"exec 3<>/dev/tcp/{host.address}/{port}"
        )
        for host, port in dials
    ]
    running = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
    codes = [process.wait() for process in running]
    return [dial for dial, code in zip(dials, codes, strict=True) if code == 0]


def dropped(host: BedHost) -> int:
    """Packets that the table has dropped there."""
    found = re.search(r"counter packets (\d+)", host.run("nft", "list", "table", "inet", "psclust"))
    assert found is not None
    return int(found[1])


def test_a_cluster_runs_behind_it_and_a_stranger_reaches_none_of_its_ports_until_it_is_unloaded(
    hosts: HostBed, bed: CommandBed
) -> None:
    first, second, stranger = hosts.hosts
    launcher = first.address.rpartition(".")[0] + ".254"
    bed.environ |= {"HOME": str(hosts.home)}
    bed.write(
        "psclust.yaml",
        json.dumps({"hosts": ["h1", "h2"], "ports": PORTS, "jobs": {"ps": 1, "worker": 1}}),
    )
    for host in (first, second):
        load(host, [first.address, second.address, launcher], PORTS)
    bed.done("up", "-d")
    dials = [(host, port) for host in (first, second) for port in _open(host)]
    assert len(dials) == 4  # of each agent and forwarder
    assert reached(first, dials) == reached(second, dials) == dials
    assert [dropped(host) for host in (first, second)] == [0, 0]
    # What is no port of a cluster's is none of its business.
    assert reached(stranger, [(first, 22), *dials], 1) == [(first, 22)]
    assert all(dropped(host) >= 2 for host in (first, second))
    for host in (first, second):
        host.run("nft", "delete", "table", "inet", "psclust")
    assert reached(stranger, dials) == dials
    bed.done("down")
    wait_until(
        lambda: not first.programs() and not second.programs(), what="the end of all on the hosts"
    )


def _open(host: BedHost) -> list[int]:
    """The ports of the range that other hosts reach there."""
    low, high = map(int, PORTS.split("-"))
    listening = [line.split()[3] for line in host.run("ss", "-ltnH").splitlines()]
    ports = [int(address.rpartition(":")[2]) for address in listening if "127.0.0.1" not in address]
    return sorted(port for port in ports if low <= port <= high)


def test_loaded_again_after_an_edit_it_is_replaced_as_a_whole(hosts: HostBed) -> None:
    first, second, stranger = hosts.hosts
    dial = [(first, 22)]
    load(first, [second.address], "22")
    assert reached(second, dial) == dial
    load(first, [stranger.address], "22")
    assert reached(stranger, dial) == reached(first, dial) == dial
    assert reached(second, dial, 1) == []
    assert dropped(first) > 0
    first.run("nft", "delete", "table", "inet", "psclust")
    assert first.run("nft", "list", "tables") == ""


def test_as_it_is_shipped_it_loads(hosts: HostBed) -> None:
    subprocess.run(
        hosts[2].command("nft", "--check", "-f", "-"), input=FRAGMENT, text=True, check=True
    )
