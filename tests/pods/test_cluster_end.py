"""How tasks learn from each other that the work of their cluster is done."""

from __future__ import annotations

import socket

import pytest

from beds.free_ports import free_ports
from psclust.pods.cluster_end import ClusterEnd
from psclust.testing.wait import wait_until

TASKS = ["ps:0", "worker:0", "worker:1"]


def ends(*deciders: str) -> dict[str, ClusterEnd]:
    first = free_ports(len(deciders))
    ports = {name: ("127.0.0.1", first + number) for number, name in enumerate(deciders)}
    return {name: ClusterEnd(name, TASKS, ports) for name in TASKS}


def test_all_know_it_when_the_last_worker_is_done() -> None:
    found = ends("worker:0", "worker:1")
    for end in found.values():
        end.watch()
    found["worker:0"].announce()
    wait_until(
        lambda: found["worker:0"]._asked_by == {"ps:0", "worker:1"}, what="both others have asked"
    )
    assert not any(end.over for end in found.values())
    assert not found["worker:1"].known_to_all
    found["worker:1"].announce()
    wait_until(lambda: all(end.over and end.known_to_all for end in found.values()), what="the end")


def test_a_chief_alone_decides_and_waits_until_a_late_task_has_asked() -> None:
    found = ends("worker:0")
    chief = found["worker:0"]
    chief.announce()
    chief.watch()
    found["ps:0"].watch()
    wait_until(lambda: found["ps:0"].over and chief.over, what="the end")
    assert not chief.known_to_all
    found["worker:1"].watch()
    wait_until(lambda: chief.known_to_all, what="the late task")


def test_bare_servers_without_a_program_have_no_end() -> None:
    end = ClusterEnd("ps:0", TASKS, {})
    end.watch()
    end.announce()
    assert not end.over
    assert end.known_to_all


def test_a_port_that_is_taken_keeps_no_one_waiting() -> None:
    port = free_ports(1)
    with socket.create_server(("", port)):
        end = ClusterEnd("worker:0", TASKS, {"worker:0": ("127.0.0.1", port)})
        end.watch()
        with pytest.raises(OSError, match="in use"):
            end.announce()
        wait_until(lambda: end.over, what="the end")
        assert end.known_to_all


def test_another_program_on_the_port_is_not_believed() -> None:
    port = free_ports(1)
    with socket.create_server(("127.0.0.1", port)) as other:
        end = ClusterEnd("ps:0", TASKS, {"worker:0": ("127.0.0.1", port)})
        end.watch()
        for _ in range(2):
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"SSH-2.0-x\r\n")
        assert not end.over
