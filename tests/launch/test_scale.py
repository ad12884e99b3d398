"""Sixteen hosts with four servers each: what comes up, what it takes of every host, and that
nothing of it stays."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from beds.command import CommandBed
from beds.hosts import BedHost, HostBed, host_bed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]

HOSTS = 16
# sshd has this done in place of what it was asked to do: a note of that, and then that.
RECORD = (
    r"""command="printf '%s\0' \"$SSH_ORIGINAL_COMMAND\" >> ~/commands; """
    r"""exec sh -c \"$SSH_ORIGINAL_COMMAND\"" """
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
    folder = tmp_path_factory.mktemp("scale") / "hosts"
    with host_bed(folder, HOSTS) as hosts:
        keys = folder / "authorized_keys"
        keys.write_text(RECORD + keys.read_text())
        yield hosts


@pytest.fixture
def far(hosts: HostBed) -> Iterator[CommandBed]:
    folder = hosts.shared / "bed"
    folder.mkdir()
    bed = CommandBed(folder, {"HOME": str(hosts.home)})
    yield bed
    assert not bed.end()


def log_ins(host: BedHost) -> int:
    return host.log.read_text(errors="replace").count("Accepted publickey")


def commands(host: BedHost) -> list[str]:
    """All that its sshd was asked to do."""
    return (host.home / "commands").read_text().split("\0")[:-1]


def test_sixteen_hosts_with_four_servers_each_come_up_by_the_planned_commands_and_go_down(
    far: CommandBed, hosts: HostBed
) -> None:
    arguments = ["-H", hosts.names, "--ps", str(HOSTS), "--workers", str(3 * HOSTS)]
    planned = json.loads(far.run("plan", "--json", *arguments)[1])
    far.done("up", "-d", *arguments)

    tasks = json.loads(far.run("ps", "--json")[1])["tasks"]
    assert Counter(task["phase"] for task in tasks) == {"running": 4 * HOSTS}
    assert Counter(task["host"] for task in tasks) == {host.name: 4 for host in hosts.hosts}
    for host in hosts.hosts:
        assert log_ins(host) == 1
        assert commands(host) == [planned["remote"][host.name]]
        # The agent, its guard, its forwarder, the fork server, and the servers.
        wait_until(
            lambda host=host: len(host.programs()) == 4 + 4,
            what=f"eight processes on {host.name}: {host.programs()}",
        )

    assert "64 tasks, none is alive" in far.done("down")
    for host in hosts.hosts:
        wait_until(
            lambda host=host: not host.programs(), what=f"the end of all processes on {host.name}"
        )
        listening = [
            line for line in host.run("ss", "-ltnH").splitlines() if f":{host.port} " not in line
        ]
        assert not [line for line in listening if host.isolated or f" {host.address}:" in line]
