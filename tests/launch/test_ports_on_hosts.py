"""Ports are looked for, kept and found taken on the host that is to use them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from on_hosts import PATIENT, left, write_file

from beds.command import CommandBed
from beds.hosts import BedHost, HostBed
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

LISTEN = (
    "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); "
    "print('listening', flush=True); sys.stdin.read()"
)


@contextmanager
def _squatter(host: BedHost, port: int) -> Iterator[None]:
    """Somebody else's server on a port of the host."""
    command = host.command(sys.executable, "-c", LISTEN, "0.0.0.0", str(port))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        try:
            yield
        finally:
            process.kill()


def _addresses(far: CommandBed) -> list[str]:
    return [task.address or "" for task in far.status().tasks]


@pytest.mark.long
def test_a_range_just_wide_enough_does_also_where_somebody_has_a_port_of_it(
    far: CommandBed, hosts: HostBed
) -> None:
    # A port of each host for its agent, one for its task, and on one of them a squatter's.
    with _squatter(hosts[1], 2300):
        said = far.done(
            "up", "-d", "-H", hosts.names, "--ps", "2", "--workers", "2", "--ports", "2300-2302"
        )
        assert "not encrypted: `ports: 2300-2302` has no port for each task alone" in said
        addresses = _addresses(far)
        assert [address.rpartition(":")[0] for address in addresses] == [
            host.address for host in hosts.hosts
        ]
        assert {int(address.rpartition(":")[2]) for address in addresses} <= {2300, 2301, 2302}
        assert f"{hosts[1].address}:2300" not in addresses
        far.done("down")


def test_a_port_that_somebody_has_on_one_host_is_named_with_who_has_it(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT, ports=2222)
    # The ports of a job's tasks are in a row.
    with _squatter(hosts[1], 2223):
        before = left(hosts)
        said = far.fails(3, "up")
        assert re.search(
            r"h2: worker:1: 127\.0\.0\.1:2223 is already in "
            r"use by \S+ \(pid \d+\)",
            said,
        ), said
        wait_until(lambda: left(hosts) == before, what="the end of everything on the hosts")


def test_between_its_choice_and_its_use_nobody_else_gets_a_port(
    far: CommandBed, hosts: HostBed
) -> None:
    # This program never listens: its port is as it is before any server has started.
    write_file(far, hosts, PATIENT)
    far.done("up", "-d")
    address, _, port = _addresses(far)[1].rpartition(":")
    for where in (address, "0.0.0.0"):
        tried = subprocess.run(
            hosts[1].command(sys.executable, "-c", LISTEN, where, port),
            capture_output=True,
            text=True,
            cwd="/",
            input="",
        )
        assert "Address already in use" in tried.stderr
    far.done("down")
