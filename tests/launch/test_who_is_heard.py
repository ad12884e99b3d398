"""Who is not of a run is closed at every port of it, and counted."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from callers import NOBODY, heard, listening
from on_hosts import isolated
from test_wire_ports import PROGRAM

from beds.command import CommandBed, typed
from beds.hosts import HostBed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ENDLESS = PROGRAM.replace("repeat(20)", "repeat()")
_SETTINGS = "0000"  # how a server of gRPC begins; a closed connection says nothing
_ALERT = "15"  # of TLS, as agents speak it


def _strangers(bed: CommandBed) -> dict[str, int]:
    rows: list[dict[str, Any]] = json.loads(bed.done("top", "--json", "-i", "0.5"))
    return {row["task"]: row["strangers"] for row in rows}


@isolated
@pytest.mark.parametrize(
    "replication", [pytest.param("in-graph", marks=pytest.mark.long), "between-graph"]
)
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
    found = [address for host in ours for address in listening(host)]
    for caller in (stranger, None):
        answers = heard(found, at=caller)
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
        assert all(each.startswith(_SETTINGS) for each in heard(servers, at=caller))
    assert _strangers(far) == counted
    far.done("down")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run it as root")
@pytest.mark.parametrize(
    "keys",
    [{}, {"preload": False}, {"jobs": {"ps": {"server": "python"}, "worker": 1}}],
    ids=["forked", "executed", "python"],
)
def test_on_one_machine_another_user_is_notheard(bed: CommandBed, keys: dict[str, Any]) -> None:
    bed.write("psclust.yaml", json.dumps({"jobs": {"ps": 1, "worker": 1}, **keys}))
    bed.done(*typed("up -d -f psclust.yaml"))
    servers = [each.address for each in bed.status().tasks if each.address]
    assert heard(servers, user=NOBODY) == ["", ""]
    assert all(each.startswith(_SETTINGS) for each in heard(servers))
    assert _strangers(bed) == {"ps:0": 1, "worker:0": 1}
    assert f"the last from 127.0.0.1 (uid {NOBODY}); `admit`" in bed.log("ps:0")
    bed.done("down")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run it as root")
def test_admitted_to_all_another_user_isheard(bed: CommandBed) -> None:
    bed.done(*typed("up -d --admit all --ps 1 --workers 1"))
    servers = [each.address for each in bed.status().tasks if each.address]
    assert all(each.startswith(_SETTINGS) for each in heard(servers, user=NOBODY))
    bed.done("down")
