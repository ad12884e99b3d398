"""Who is not of a run is closed at every port of it, and counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from on_hosts import isolated
from test_wire_ports import PROGRAM

from beds.command import CommandBed, typed
from beds.hosts import BedHost, HostBed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

PORTS = range(24100, 24200)
ENDLESS = PROGRAM.replace("repeat(20)", "repeat()")
NOBODY = 65534

# As user $1: what each address $2... answers to a client of gRPC, in hexadecimal.
CALL = r"""
import os, socket, sys
os.setuid(int(sys.argv[1]))
for address in sys.argv[2:]:
    host, port = address.split(":")
    heard = b""
    with socket.socket() as s:
        s.settimeout(20)
        s.connect((host, int(port)))
        try:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            heard = s.recv(100)
        except ConnectionError:
            pass
    print("heard", heard.hex())
"""
_SETTINGS = "0000"  # how a server of gRPC begins; a closed connection says nothing
_ALERT = "15"  # of TLS, as agents speak it


def _heard(addresses: Sequence[str], *, user: int = 0, at: BedHost | None = None) -> list[str]:
    """What the addresses answer to a process of `user`, on this machine or on a host."""
    argv = [sys.executable, "-S", "-c", CALL, str(user), *addresses]
    said = subprocess.run(
        at.command(*argv) if at else argv, check=True, capture_output=True, text=True, timeout=120
    ).stdout
    return [line.removeprefix("heard").strip() for line in said.splitlines()]


def _listening(host: BedHost) -> list[str]:
    """The addresses at which something of a run listens."""
    rows = [
        line.split() for line in host.run("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()
    ]
    ports = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3:4] == ["0A"]}
    return [f"{host.address}:{port}" for port in sorted(ports & set(PORTS))]


def _strangers(bed: CommandBed) -> dict[str, int]:
    rows: list[dict[str, Any]] = json.loads(bed.done("top", "--json", "-i", "0.5"))
    return {row["task"]: row["strangers"] for row in rows}


@isolated
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_every_port_of_every_host_is_closed_to_other_machines(
    far: CommandBed, hosts: HostBed, replication: str
) -> None:
    far.write("mine.py", ENDLESS)
    ours, stranger, guest = hosts.hosts[:2], hosts[2], hosts[3]
    how = f"up -d --ports 24100-24199 --admit {guest.address} --ps 2 --workers 2"
    far.done(*typed(how), "-H", "h1,h2", "--replication", replication, "mine:program")
    trains = "client:0" if replication == "in-graph" else "worker:0"
    wait_until(lambda: "step " in far.log(trains), what="a step")
    servers = [
        each.address for each in far.status().tasks if each.address and each.role == "server"
    ]
    # Those of agents, too, which speak TLS.
    found = [address for host in ours for address in _listening(host)]
    for caller in (stranger, None):
        answers = _heard(found, at=caller)
        assert {each for each in answers if not each.startswith(_ALERT)} == {""}
        assert sum(each.startswith(_ALERT) for each in answers) <= len(ours)
    counted = _strangers(far)
    # A ps that has variables listens for psclust's own wire, too.
    assert counted["ps:0"] == 4, counted
    assert sum(counted.values()) == 2 * (len(found) - len(ours)), (counted, found)
    said = far.done("why")
    assert "ps:0 closed 4 connections of strangers, the last from 10.77." in said
    line = "psclust: connections that are not of this run are closed, 1 so far, the last from"
    assert f"{line} {stranger.address}; `admit`" in far.log("ps:0")
    assert far.log("ps:0").count("psclust: connections that are not of this run") == 1

    for caller in (*ours, guest):
        assert all(each.startswith(_SETTINGS) for each in _heard(servers, at=caller))
    assert _strangers(far) == counted
    far.done("down")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run it as root")
@pytest.mark.parametrize(
    "keys",
    [{}, {"preload": False}, {"jobs": {"ps": {"server": "python"}, "worker": 1}}],
    ids=["forked", "executed", "python"],
)
def test_on_one_machine_another_user_is_not_heard(bed: CommandBed, keys: dict[str, Any]) -> None:
    bed.write("psclust.yaml", json.dumps({"jobs": {"ps": 1, "worker": 1}, **keys}))
    bed.done(*typed("up -d -f psclust.yaml"))
    servers = [each.address for each in bed.status().tasks if each.address]
    assert _heard(servers, user=NOBODY) == ["", ""]
    assert all(each.startswith(_SETTINGS) for each in _heard(servers))
    assert _strangers(bed) == {"ps:0": 1, "worker:0": 1}
    assert f"the last from 127.0.0.1 (uid {NOBODY}); `admit`" in bed.log("ps:0")
    bed.done("down")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run it as root")
def test_admitted_to_all_another_user_is_heard(bed: CommandBed) -> None:
    bed.done(*typed("up -d --admit all --ps 1 --workers 1"))
    servers = [each.address for each in bed.status().tasks if each.address]
    assert all(each.startswith(_SETTINGS) for each in _heard(servers, user=NOBODY))
    bed.done("down")
