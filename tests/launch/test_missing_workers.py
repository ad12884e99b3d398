"""Runs that go on, or start, without some of their workers (jobs.worker.min). Programs only stand
in for a training."""

from __future__ import annotations

import pytest
from on_hosts import isolated

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.stand_in import interpreter, stand_in
from psclust.rundir.status import TaskStatus
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

hosts = hosts_of_file(3)


def write(far: CommandBed, listed: str, worker: str, keys: str = "") -> None:
    far.write(
        "psclust.yaml",
        f"hosts: {listed}\nprogram: standing:program\ninput: handed_out\npreload: false\n"
        f"jobs: {{ps: 1, worker: {{{worker}, python: {interpreter(far)}}}}}\n"
        f"deadlines: {{lease: 5, detached: 5, stop: 2}}\n{keys}",
    )


def tasks(bed: CommandBed) -> dict[str, TaskStatus]:
    return {task.task: task for task in bed.status().tasks}


def pids(bed: CommandBed) -> dict[str, int | None]:
    return {name: task.pid for name, task in tasks(bed).items()}


def steps(bed: CommandBed) -> int:
    file = bed.folder / "steps"
    return file.stat().st_size if file.exists() else 0


def is_up(bed: CommandBed) -> None:
    wait_until(
        lambda: {task.phase for task in bed.status().tasks} == {"running"} and steps(bed),
        what="all tasks, and a step",
    )


def goes_on(bed: CommandBed) -> None:
    made = steps(bed)
    wait_until(lambda: steps(bed) > made + 20, what="more steps")


@isolated
def test_a_run_goes_on_without_a_lost_host_and_ends_well(far: CommandBed, hosts: HostBed) -> None:
    write(far, "h1:2, h2:1, h3:1", "count: 3, min: 2, max: 4")
    up = far.start("up")
    is_up(far)
    before = pids(far)
    assert tasks(far)["worker:1"].host == "h3"
    hosts[2].cut()
    try:
        up.until("the run goes on with 2 workers; nobody else stops")
        assert far.wait_for("worker:1", "dropped").host == "h3"
        goes_on(far)
        after = pids(far)
        assert {task: after[task] for task in before if task != "worker:1"} == {
            task: before[task] for task in before if task != "worker:1"
        }
        said = far.fails(2, "scale", "worker=5")
        assert "worker=5: found 5, more than max: 4; write 4 or less." in said
    finally:
        hosts[2].heal()
    up.until("h3 is back: worker:1 joins; nobody else stops")
    assert far.wait_for("worker:1", "running", attempt=2).host == "h3"
    assert {**pids(far), "worker:1": 0} == {**before, "worker:1": 0}
    far.write("finish", "")
    assert up.wait() == 0, up.output


@isolated
def test_a_host_comes_back_to_a_detached_run_on_request(far: CommandBed, hosts: HostBed) -> None:
    write(far, "h1:2, h2:1, h3:1", "count: 3, min: 2", "encrypt: false\n")
    far.done("up", "-d")
    is_up(far)
    before = pids(far)
    hosts[2].end_programs()
    far.wait_for("worker:1", "dropped")
    said = far.done("scale", "-H", "+h3")
    assert "worker:1 joins; nobody else stops" in said
    assert far.wait_for("worker:1", "running", attempt=2).host == "h3"
    assert {**pids(far), "worker:1": 0} == {**before, "worker:1": 0}
    far.write("finish", "")
    assert far.wait_for_end().ok


@pytest.mark.long
@isolated
def test_a_graph_that_knows_all_workers_is_made_anew_when_a_host_is_lost(
    far: CommandBed, hosts: HostBed
) -> None:
    write(far, "h1:2, h2:1, h3:1", "count: 3, min: 2", "update: sync\n")
    up = far.start("up")
    is_up(far)
    before = tasks(far)
    lost = next(task.host for task in before.values() if task.task == "worker:1")
    assert lost == "h3"
    hosts[2].cut()
    try:
        up.until("the run goes on with 2 workers")
        far.wait_for("worker:0", "running", attempt=2)
        wait_until(lambda: "knows 2 workers" in far.log("worker:0", 2), what="a graph of two")
        assert set(tasks(far)) == set(before) - {"worker:2"}
        assert tasks(far)["ps:0"].pid == before["ps:0"].pid
        goes_on(far)
        far.write("finish", "")
        assert up.wait() == 0, up.output
    finally:
        hosts[2].heal()


def test_a_run_starts_without_a_host_that_does_not_answer(far: CommandBed, hosts: HostBed) -> None:
    write(far, "h1:2, h2:1, nowhere:4", "min: 2, max: 16")
    up = far.start("up")
    up.until("the run starts without nowhere: ")
    goes_on(far)
    assert [far.wait_for(f"worker:{index}", "running").host for index in (0, 1)] == ["h2", "h1"]
    assert tasks(far)["worker:5"].phase == "dropped"
    up.interrupt()
    up.wait()


def test_a_run_needs_its_least_number_of_workers_to_start(far: CommandBed, hosts: HostBed) -> None:
    write(far, "h1:1, h2:1, nowhere:4", "min: 2, max: 16")
    said = far.fails(3, "up")
    assert "nowhere: " in said
    assert "The run cannot start without: no slot is left for worker:1; fewer than 2 would" in said


@pytest.mark.parametrize("way", ["update: async", "update: sync", "replication: in-graph"])
def test_a_run_goes_on_without_a_worker_that_gets_no_other_attempt(
    bed: CommandBed, way: str
) -> None:
    stand_in(
        bed,
        "input: handed_out\njobs: {ps: 1, worker: {count: 3, min: 2}}\n"
        f"restart: {{max: 0}}\n{way}\n",
    )
    bed.done("up", "-d")
    is_up(bed)
    before = pids(bed)
    bed.signal("worker:1")
    if way == "update: async":
        bed.wait_for("worker:1", "dropped")
        assert {**pids(bed), "worker:1": 0} == {**before, "worker:1": 0}
        bed.done("restart", "worker:1")
        bed.wait_for("worker:1", "running", attempt=2)
        assert pids(bed)["worker:0"] == before["worker:0"]
    else:
        client = "worker:0" if way == "update: sync" else "client:0"
        bed.wait_for(client, "running", attempt=2)
        bed.wait_for("worker:1", "running", attempt=2)
        wait_until(lambda: "knows 2 workers" in bed.log(client, 2), what="a graph of two")
        assert set(tasks(bed)) == {"ps:0", "worker:0", "worker:1", client}
        assert pids(bed)["ps:0"] == before["ps:0"]
    goes_on(bed)
    bed.signal("worker:0")
    assert bed.wait_for_end().text is not None
    assert not bed.status().ok


@pytest.mark.long
def test_a_slow_worker_starts_again_on_another_host(far: CommandBed, hosts: HostBed) -> None:
    slow = "count: 3, task_env: {1: {RATE: '20'}}"
    write(far, "h1:3, h2:1, h3:1", slow, "replace_slow: 3x\n")
    up = far.start("up")
    is_up(far)
    before = pids(far)
    assert tasks(far)["worker:1"].host == "h3"
    up.until("moved: worker:1 to h1")
    assert far.wait_for("worker:1", "running", attempt=2).host == "h1"
    assert "left" in far.log("worker:1")
    assert {**pids(far), "worker:1": 0} == {**before, "worker:1": 0}
    assert "worker:1 made steps 5.0 times slower than the median of all workers" in up.output
    far.write("finish", "")
    assert up.wait() == 0, up.output
    said = far.done("report", "--text")
    assert "gives its place to a spare slot on another host: made steps 5.0 times slower" in said
