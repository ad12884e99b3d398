"""`psclust scale` and `rebalance` at a prompt: who joins, leaves and starts again, and what is
refused. Programs only stand in for a training, except where a checkpoint counts."""

from __future__ import annotations

import json
import re

import pytest

from beds.command import CommandBed
from beds.growing import growing
from beds.stand_in import stand_in
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ELASTIC = "input: handed_out\njobs: {ps: 1, worker: 2}"


def pids(bed: CommandBed) -> dict[str, int | None]:
    return {task.task: task.pid for task in bed.status().tasks}


def up(bed: CommandBed, keys: str, *flags: str) -> dict[str, int | None]:
    stand_in(bed, keys)
    bed.done("up", "-d", *flags)
    wait_until(lambda: (bed.folder / "steps").exists(), what="a step")
    return pids(bed)


def says(bed: CommandBed, task: str, text: str, attempt: int = 1) -> None:
    wait_until(lambda: text in bed.log(task, attempt), what=f"{text!r} of {task}")


def test_workers_join_and_leave_and_nobody_else_stops(bed: CommandBed) -> None:
    before = up(bed, ELASTIC)
    said = bed.done("scale", "worker=4", env={"OMP_NUM_THREADS": "9", "LD_PRELOAD": ""})
    assert "bed: worker:2, worker:3 join; nobody else stops\nbed: 1 ps and 4 workers" in said
    grown = pids(bed)
    assert grown.items() >= before.items()
    says(bed, "worker:3", "knows 4 workers")
    said = bed.done("scale", "bed", "worker=1")
    assert "bed: worker:1, worker:2, worker:3 leave; nobody else stops" in said
    says(bed, "worker:3", "left\n")
    assert pids(bed) == {task: before[task] for task in ("ps:0", "worker:0")}
    assert "bed: nothing differs; it has 1 ps and 1 worker" in bed.done("scale", "worker=1")
    bed.write("finish", "")
    assert bed.wait_for_end().ok


def test_a_worker_that_joins_and_fails_at_once_ends_nothing(bed: CommandBed) -> None:
    before = up(bed, ELASTIC)
    bed.write("bad", "")
    bed.done("scale", "worker=3")
    bed.wait_for("worker:2", "dropped")
    assert any(
        note.startswith("worker:2 exited with code 1 and is not started again; the run goes on")
        for note in bed.status().notes
    )
    assert pids(bed).items() >= before.items()
    (bed.folder / "bad").unlink()
    bed.done("restart", "worker:2")
    bed.wait_for("worker:2", "running", attempt=2)
    bed.write("finish", "")
    assert bed.wait_for_end().ok


@pytest.mark.long
def test_two_at_once_are_made_one_after_the_other(bed: CommandBed) -> None:
    before = up(bed, ELASTIC)
    for counts in ((6, 3), (4, 1), (2, 5)):
        both = {count: bed.start("scale", f"worker={count}") for count in counts}
        codes = {count: running.wait(60) for count, running in both.items()}
        said = [running.output for running in both.values()]
        made = [count for count, code in codes.items() if code == 0]
        assert made, said
        now = pids(bed)
        assert len(now) - 1 in made, said
        assert now["worker:0"] == before["worker:0"]
        for count, running in both.items():
            if codes[count]:
                assert "try again when" in running.output or "another change" in running.output
    bed.write("finish", "")
    assert bed.wait_for_end().ok


@pytest.mark.long
def test_a_second_up_scales_as_well(bed: CommandBed) -> None:
    before = up(bed, ELASTIC)
    assert "+ worker:2" in bed.done("up", "--workers", "3")
    bed.wait_for("worker:2", "running")
    assert pids(bed).items() >= before.items()
    flags = ("--workers", "3", "--ps", "2")
    assert "bed is up; `up` would make these changes.\n" in bed.run("plan", *flags)[1]
    assert "+ ps:1" in bed.done("up", *flags)
    says(bed, "worker:2", "left\n")
    bed.wait_for("worker:2", "running", attempt=2)
    assert pids(bed)["ps:0"] == before["ps:0"]
    bed.run("down")


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "client"), [("update: sync", "worker:0"), ("replication: in-graph", "client:0")]
)
def test_clients_with_all_workers_in_their_graph_start_again_and_the_ps_stays(
    bed: CommandBed, way: str, client: str
) -> None:
    before = up(bed, f"{ELASTIC}\n{way}")
    found = json.loads(bed.done("scale", "worker=3", "--json"))
    assert (found["added"], found["from_checkpoint"]) == (["worker:2"], False)
    assert client in found["restarted"]
    assert found["paused_s"] > 0
    says(bed, client, "left\n")
    says(bed, client, "knows 3 workers", 2)
    assert pids(bed)["ps:0"] == before["ps:0"]
    said = bed.done("scale", "worker=1")
    assert re.search(r"1 ps.* 1 worker.* after .*; the training paused for .* at step \d+", said)
    assert pids(bed)["ps:0"] == before["ps:0"]
    bed.run("down")


def test_another_ps_starts_all_again_from_a_checkpoint_and_the_run_goes_on(
    bed: CommandBed,
) -> None:
    before = up(bed, "jobs: {ps: 1, worker: 2}")
    said = bed.done("scale", "ps=2", "worker=3")
    assert "bed: all tasks start again from a checkpoint of now\nbed: 2 ps and 3 workers" in said
    says(bed, "worker:1", "saved\n")
    after = pids(bed)
    assert not set(after.values()) & set(before.values())
    said = bed.done("rebalance")
    assert "all tasks start again from a checkpoint of now" in said
    assert "its placement is balanced already" in bed.done("rebalance")
    bed.write("finish", "")
    assert bed.wait_for_end().ok


def test_where_data_is_handed_out_the_ps_stay_when_others_come_or_go(bed: CommandBed) -> None:
    before = up(bed, ELASTIC)
    said = bed.done("scale", "ps=3")
    assert "worker:0, worker:1 end their step and start again; ps:1, ps:2 join" in said
    assert re.search("3 ps and 2 workers after .*; the training paused for", said)
    says(bed, "worker:1", "left\n")
    found = bed.done("scale", "worker=3")
    assert "nobody else stops" in found
    grown = pids(bed)
    assert grown["ps:0"] == before["ps:0"]
    said = bed.done("rebalance")
    assert "worker:0, worker:1, worker:2 end their step and start again" in said
    assert "its placement is balanced already" in bed.done("rebalance")
    said = bed.done("scale", "ps=1")
    assert "end their step and start again; ps:1, ps:2 leave" in said
    assert pids(bed)["ps:0"] == before["ps:0"]
    bed.write("finish", "")
    assert bed.wait_for_end().ok


def test_a_save_that_fails_or_never_ends_goes_on_from_the_last_checkpoint(bed: CommandBed) -> None:
    worker = "{count: 2, task_env: {0: {END_CODE: 3}, 1: {END_S: 100}}}"
    up(bed, f"jobs: {{ps: 1, worker: {worker}}}\ndeadlines: {{finish: 1}}")
    said = bed.done("scale", "ps=2")
    assert "worker:0 exited with code 3 as it was to save; its last checkpoint counts" in said
    assert "worker:1 was killed by SIGKILL as it was to save" in said
    assert "bed: 2 ps and 2 workers" in said
    bed.run("down")


def test_what_cannot_be_is_refused_in_a_sentence(bed: CommandBed) -> None:
    up(bed, ELASTIC)
    for words, expected in {
        "worker=0": "worker=0: a psclust program needs at least one worker; write 1 or more.",
        "ps=0": "ps=0: a psclust program needs at least one ps; write 1 or more.",
        "worker=x": "worker=x: found no number of tasks; write it as worker=8.",
        "worker=5000": "worker=5000: a job has at most 4096 tasks.",
        "chief=1": "chief=1: only ps and worker are scaled.",
        "bed": "say how many tasks, for example worker=8.",
        "a b worker=2": "a b: name one run, then counts such as worker=8, without blanks.",
        "nope worker=2": "nope: no live run of that name; there is: bed.",
        "worker=2 worker=3": "worker=3: contradicts worker=2; give one of the two.",
    }.items():
        assert bed.fails_here(2, "scale", *words.split()) == f"psclust: {expected}\n"
    assert "the policies are" in bed.fails_here(2, "rebalance", "--placement", "best")
    (bed.run_folder().plan_inputs).unlink()
    assert "End the run (psclust down bed), and start it again." in bed.fails_here(
        2, "scale", "worker=3"
    )
    bed.run("down")
    assert "no run is live" in bed.fails_here(2, "scale", "worker=3")


def test_scripts_and_bare_servers_are_not_scaled(bed: CommandBed) -> None:
    bed.write("train.py", "import time\nprint('here', flush=True)\ntime.sleep(1000)\n")
    bed.done("up", "-d", "--no-preload", "--ps", "0", "--workers", "1", "train.py")
    said = bed.fails(2, "scale", "worker=2")
    assert "train.py, which is no psclust program, learns its cluster when it starts. End" in said
    bed.done("down")
    bed.done("up", "-d", "--workers", "1")
    said = bed.fails(2, "scale", "worker=2")
    assert "bed: bare servers learn their cluster when they start. End the run" in said
    bed.done("down")


@pytest.mark.long
def test_a_training_resumes_at_the_same_step_with_other_counts(bed: CommandBed) -> None:
    growing(bed, "between-graph --async", ps=1, epochs=1000, input="sharded")
    says(bed, "worker:0", "step ")
    for number, counts in enumerate(("ps=2 worker=3", "worker=1"), 2):
        said = bed.done("scale", *counts.split())
        first = re.search(r"resumed at step (\d+)", bed.log("worker:0", number))
        goes_on = re.search(r"goes on at step (\d+)", said)
        assert first
        assert goes_on
        saved = re.search(r"trained to step (\d+)", bed.log("worker:0", number - 1))
        assert saved
        assert saved[1] == first[1]
        assert int(goes_on[1]) > int(first[1])
    assert set(pids(bed)) == {"ps:0", "ps:1", "worker:0"}
    bed.run("down")
