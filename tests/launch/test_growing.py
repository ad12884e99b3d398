"""Workers come and go in the middle of an epoch, and every example is used once an epoch all the
same."""

from __future__ import annotations

import pytest

from beds.command import CommandBed
from beds.growing import WAYS, Growing, growing, in_ways
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

hosts = hosts_of_file(3)


@in_ways()
def test_two_six_three_workers_use_each_example_once_an_epoch(bed: CommandBed, way: str) -> None:
    _grows_and_shrinks(growing(bed, way), way)


@in_ways(among=[way for way in WAYS if way.startswith("between-graph")])
def test_two_six_three_workers_on_hosts(far: CommandBed, hosts: HostBed, way: str) -> None:
    slots = [f"{host.name}:3" for host in hosts.hosts]
    _grows_and_shrinks(growing(far, way, hosts=slots), way)
    assert {task.host for task in far.status().tasks} == {host.name for host in hosts.hosts}


def _grows_and_shrinks(run: Growing, way: str) -> None:
    in_graph = way.startswith("in-graph")
    client = "client:0" if in_graph else "worker:0"
    run.reach(20, client)
    run.scale(6)
    if way == "between-graph --async":
        assert run.attempts() == dict.fromkeys(run.attempts(), 1)
    run.reach(run.step(client) + 10, client if in_graph else "worker:5")
    run.scale(3)
    run.reach(run.step(client) + 10, client)
    attempts = run.attempts()
    assert {task for task in attempts if task.startswith("worker")} == {
        "worker:0",
        "worker:1",
        "worker:2",
    }
    assert (attempts["ps:0"], attempts["ps:1"]) == (1, 1)
    run.hurry()
    assert set(run.used()) == {run.epochs}


@in_ways()
def test_the_variables_move_to_more_and_to_fewer_ps_while_the_servers_live_on(
    bed: CommandBed, way: str
) -> None:
    run = growing(bed, way, placement={"max_shard_bytes": 2000})
    client = "client:0" if way.startswith("in-graph") else "worker:0"
    run.reach(20, client)
    for attempt, (words, more) in enumerate(
        [(("ps=4",), 10), (("ps=1", "worker=3"), 10), (("ps=2",), 10)], 2
    ):
        bed.done("scale", *words)
        log = bed.log(client, attempt)
        assert "the variables have moved; the training goes on at step" in log, log
        run.reach(run.step(client) + more, client)
    assert run.attempts()["ps:0"] == 1
    run.hurry()
    assert set(run.used()) == {run.epochs}


@pytest.mark.long
def test_the_variables_move_to_a_ps_of_a_host_that_joins(far: CommandBed, hosts: HostBed) -> None:
    run = growing(far, "between-graph --async", hosts=["h1:3", "h2:1"], ps=1)
    run.reach(20, "worker:0")
    far.done("scale", "ps=3", "-H", "+h3:2")
    run.reach(run.step("worker:0") + 10, "worker:0")
    far.done("scale", "ps=1")
    for attempt in (2, 3):
        assert "the variables have moved" in far.log("worker:0", attempt)
    run.hurry()
    assert set(run.used()) == {run.epochs}
