"""`psclust doctor` on real hosts: what is wrong with each, and what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from on_hosts import isolated

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import BedHost, HostBed
from psclust.rundir.links_file import read_links, slowest_link
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


machines = hosts_of_file(3)


@pytest.fixture
def doctor(bed: CommandBed, machines: HostBed) -> CommandBed:
    """A command whose home knows the hosts, and a cluster file with them."""
    bed.environ["HOME"] = str(machines.home)
    bed.write("psclust.yaml", f"hosts: {machines.names}\nports: 2300-2399\n")
    return bed


def wrap_python(host: BedHost, *lines: str) -> None:
    """`~/py` on the host: this interpreter, after `lines` of shell."""
    path = host.home / "py"
    path.write_text("\n".join(["#!/bin/sh", *lines, f'exec {sys.executable} "$@"', ""]))
    path.chmod(0o755)


def pythons(host: BedHost) -> list[int]:
    """Those that run: nobody waits for what outlives its parent on a test host, so it stays as a
    zombie when it has ended."""
    return [
        process.pid
        for process in host.processes()
        if "python" in process.name() and process.status() != "zombie"
    ]


def findings(said: str, *levels: str) -> set[tuple[str, str, str]]:
    """(host, check, level) of those with these levels."""
    found = {(entry["host"], entry["check"], entry["level"]) for entry in json.loads(said)}
    return {entry for entry in found if entry[2] in levels}


def test_hosts_that_are_well_are_said_to_be_in_a_row_a_check(
    doctor: CommandBed, machines: HostBed
) -> None:
    said = doctor.done("doctor")
    rows = {tuple(line.split(None, 3)[:3]) for line in said.splitlines()}
    checks = ["log-in", "python", "tensorflow", "psclust", "disk", "clock", "gpus", "proxies"]
    assert {("all", "3", check) for check in checks} <= rows
    assert "reaches all others; " in said
    assert " Mbit/s, " in said
    assert "servers listen on one interface" in said
    assert said.splitlines()[-1] == "A cluster can start here."
    wait_until(
        lambda: not any(map(pythons, machines.hosts)), what="the end of all that was started"
    )


def test_hosts_without_a_log_in_or_a_python_do_not_hide_what_is_wrong_with_others(
    doctor: CommandBed, machines: HostBed
) -> None:
    wrap_python(machines[0], "export https_proxy=http://me:secret@proxy:3128")
    (machines[1].home / "py").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    (machines[1].home / "py").chmod(0o755)
    try:
        said = doctor.fails(1, "doctor", "--json", "-H", "h1,h2,h3,nowhere", "--python", "~/py")
        assert findings(said, "problem") == {
            ("nowhere", "log-in", "problem"),
            ("h2", "python", "problem"),
            ("h3", "python", "problem"),
        }
        texts = {
            entry["host"]: entry["text"]
            for entry in json.loads(said)
            if entry["level"] == "problem"
        }
        assert texts["h2"] == "~/py ended with 3: broken."
        assert texts["h3"].startswith("no Python there (tried ~/py).")
        assert ("h1", "network", "ok") in findings(said, "ok")
        assert ("h1", "proxies", "note") in findings(said, "note")
        assert "secret" not in said
    finally:
        for host in machines.hosts[:2]:
            (host.home / "py").unlink()


@isolated
def test_a_port_that_is_closed_between_hosts_is_found_on_the_ports_of_the_cluster(
    doctor: CommandBed, machines: HostBed
) -> None:
    third = machines[2]
    third.run("nft", "add table inet closed")
    third.run("nft", "add chain inet closed in { type filter hook input priority 0; }")
    third.run("nft", "add rule inet closed in tcp dport 2300-2399 iifname eth0 drop")
    try:
        said = doctor.fails(1, "doctor", "--json")
        assert findings(said, "problem") == {
            ("h1", "network", "problem"),
            ("h2", "network", "problem"),
        }
        assert f"cannot reach h3 at {third.address}:2300 (no answer)" in said
        assert ("h3", "exposure", "ok") in findings(said, "ok"), "it has a firewall"
        doctor.done(
            "doctor",
            "-f",
            str(doctor.write("other.yaml", f"hosts: {machines.names}\nports: 2400-2499\n")),
        )
    finally:
        third.run("nft", "delete table inet closed")


@isolated
def test_a_slow_link_is_measured_and_kept_for_the_plan(
    doctor: CommandBed, machines: HostBed
) -> None:
    first = machines[0]
    assert first.network is not None
    limit = ["root", "tbf", "rate", "100mbit", "burst", "256kb", "latency", "50ms"]
    outside = ["tc", "qdisc", "add", "dev", f"{first.network.bridge}-1", *limit]
    subprocess.run(outside, check=True)
    first.run("tc", "qdisc", "add", "dev", "eth0", *limit)
    try:
        code, said = doctor.run("doctor", "--json")
        _, shown = doctor.run("doctor")
    finally:
        first.run("tc", "qdisc", "del", "dev", "eth0", "root")
        outside[2] = "del"
        subprocess.run(outside[:6], check=True)
    assert code == 0, said
    links = {
        (entry["host"], entry["to"]): (entry["mbit"], entry["round_trip_ms"])
        for entry in json.loads(said)
        if entry["check"] == "link"
    }
    assert set(links) == {("h1", "h2"), ("h1", "h3"), ("h2", "h3")}
    # Less on a busy machine, but never more than the link has.
    for pair in ("h1", "h2"), ("h1", "h3"):
        assert 30 < links[pair][0] < 100
        assert 0 < links[pair][1] < 50
    assert links["h2", "h3"][0] > 200
    assert "; the slowest between h1 and h" in shown
    kept = slowest_link(read_links(doctor.state), ["h1", "h2"], time.time())
    assert kept is not None
    assert 0.03 < kept.gbit < 0.1


def test_without_hosts_it_is_this_machine_that_is_checked(bed: CommandBed) -> None:
    said = bed.done("doctor", "--json")
    found = json.loads(said)
    assert {entry["host"] for entry in found} == {"localhost"}
    assert {"python", "tensorflow", "psclust", "server shim", "kernels", "network"} <= {
        entry["check"] for entry in found
    }
    assert "/no/python" in bed.fails(1, "doctor", "--python", "/no/python")
