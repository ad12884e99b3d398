"""Verbs at a real prompt: detached runs, second `up`s, several clusters at once, ports that are
taken."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from beds.command import CommandBed
from beds.free_ports import free_ports
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

PATIENT = (
    "import os, sys, time\nprint('args', sys.argv[1:], flush=True)\n"
    "while not os.path.exists('finish'): time.sleep(0.02)\n"
)
FILE = """
jobs: {worker: 2}
program: patient.py
preload: false
"""


@pytest.fixture
def patient(bed: CommandBed) -> CommandBed:
    bed.write("patient.py", PATIENT)
    bed.write("psclust.yaml", FILE)
    return bed


def test_a_detached_run_outlives_up_and_is_found_again(patient: CommandBed) -> None:
    assert "bed is up: 2 workers" in patient.done("up", "-d")
    said = patient.done("ps")
    assert [line.split()[:2] for line in said.splitlines()[2:]] == [
        ["worker:0", "running"],
        ["worker:1", "running"],
    ]
    patient.write("finish", "")
    patient.wait_for_end()
    assert "ended well" in patient.done("ps")


def test_a_second_up_changes_nothing_when_nothing_differs(patient: CommandBed) -> None:
    patient.run("up", "-d")
    before = {task: patient.wait_for(task, "running").pid for task in ("worker:0", "worker:1")}
    assert "nothing differs" in patient.done("up")
    assert {task: patient.wait_for(task, "running").pid for task in before} == before
    patient.run("down")


def test_a_second_up_applies_other_deadlines_to_the_live_run(patient: CommandBed) -> None:
    patient.run("up", "-d")
    patient.write("psclust.yaml", FILE + "deadlines: {run: 0.5, run_exit_code: 0}\n")
    assert "~ deadlines.run: 0.5" in patient.done("up")
    ended = patient.wait_for_end()
    assert ended.ok
    assert ended.text == "the time limit of 0.5 s was reached (deadlines.run)"


def test_a_second_up_changes_only_what_differs(patient: CommandBed) -> None:
    patient.run("up", "-d")
    first = patient.wait_for("worker:0", "running").pid
    patient.write(
        "psclust.yaml",
        FILE.replace("{worker: 2}", "{worker: {count: 2, task_args: {1: [--late]}}}"),
    )
    assert "~ worker:1 (argv)" in patient.done_here("plan")
    said = patient.done("up")
    assert "~ worker:1 (argv)" in said
    assert "worker:0 (" not in said
    patient.wait_for("worker:1", "running", attempt=2)
    wait_until(lambda: "--late" in patient.log("worker:1", 2), what="the new argument")
    assert patient.wait_for("worker:0", "running").pid == first
    patient.run("down")


def test_a_second_up_adds_and_removes_tasks_outside_the_cluster(patient: CommandBed) -> None:
    patient.run("up", "-d")
    first = patient.wait_for("worker:0", "running").pid
    _, said = patient.run("up", "--job", "evaluator=1")
    assert "+ evaluator:0" in said
    patient.wait_for("evaluator:0", "running")
    _, said = patient.run("up")
    assert "- evaluator:0" in said
    wait_until(lambda: patient.task("evaluator:0") is None, what="the evaluator's end")
    assert patient.wait_for("worker:0", "running").pid == first
    patient.run("down")


def test_plan_starts_nothing_and_shows_arguments_and_tf_config(patient: CommandBed) -> None:
    said = patient.done_here("plan", "--json", "-f", "psclust.yaml", "patient.py", "--lr", "0.1")
    plan = json.loads(said)
    assert plan["tasks"][1]["argv"] == [sys.executable, "patient.py", "--lr", "0.1"]
    assert json.loads(plan["tasks"][1]["env"]["TF_CONFIG"]) == {
        "cluster": {"worker": ["127.0.0.1:auto", "127.0.0.1:auto"]},
        "task": {"type": "worker", "index": 1},
    }
    assert not patient.state.exists()


def test_two_ups_that_race_make_one_run(patient: CommandBed) -> None:
    racers = [patient.start("up", "-d") for _ in range(3)]
    assert [racer.wait() for racer in racers] == [0, 0, 0]
    said = [racer.output for racer in racers]
    assert sum("bed is up: 2 workers" in text for text in said) == 1
    assert sum("nothing differs" in text for text in said) == 2
    assert len(patient.cluster().runs()) == 1
    patient.run("down")


def test_two_clusters_that_race_for_fixed_ports_do_not_share_them(patient: CommandBed) -> None:
    base = free_ports(2)
    racers = [
        patient.start("up", "-d", "--name", name, "--ports", str(base)) for name in ("one", "two")
    ]
    assert sorted(racer.wait() for racer in racers) == [0, 3]
    refused = next(racer.output for racer in racers if racer.process.returncode == 3)
    assert f"127.0.0.1:{base} is already in use" in refused
    patient.done("down")


def test_ports_come_from_the_range_that_was_given(patient: CommandBed) -> None:
    base = free_ports(4)
    with socket.create_server(("127.0.0.1", base)):
        patient.done("up", "-d", "--ports", f"{base}-{base + 3}")
        status = patient.status()
    assert [task.address for task in status.tasks] == [
        f"127.0.0.1:{base + 1}",
        f"127.0.0.1:{base + 2}",
    ]
    patient.run("down")


def test_restart_gives_a_task_a_new_attempt(patient: CommandBed) -> None:
    patient.run("up", "-d")
    assert "worker:1: attempt 2 runs" in patient.done("restart", "worker:1")
    said = patient.fails(2, "restart", "worker:7")
    assert "bed has no such task; it has worker:0, worker:1" in said
    patient.run("down")


def test_a_run_that_ended_before_its_tasks_started_has_none(bed: CommandBed) -> None:
    bed.fails(3, "up", "-H", "no-such-host.invalid")
    said = bed.fails(2, "logs", "worker:1")
    assert "bed has no such task; it has none, as it ended before they started." in said


def test_verbs_without_a_run_say_so(bed: CommandBed) -> None:
    for verb in ("ps", "down", "logs", "why"):
        said = bed.fails_here(2, verb)
        assert said == "psclust: no run is live. Start one with `psclust up`.\n"


def test_schema_prints_json(bed: CommandBed) -> None:
    assert "jobs" in json.loads(bed.done_here("schema"))["properties"]
