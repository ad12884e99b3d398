"""What programs written by others expect of a launcher: each within reach of a line or two of a
cluster file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from script_sources import LAUNCHER

from psclust.plan.build_plan import Run, build_plan
from psclust.plan.cluster_layout import lay_out
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.load import load

JOBS = "jobs: {controller: 1, ps: 2, worker: 2}\nprogram: train.py\n"


def plan_of(folder: Path, text: str) -> Plan:
    (folder / "c.yaml").write_text(text)
    file = load(folder / "c.yaml", default_name="x")
    layout = lay_out(file)
    requests = layout.port_requests(file.ports)
    ports = {request.task: 2000 + number for number, request in enumerate(requests)}
    return build_plan(PlanInputs(file, {}, {}, LAUNCHER), layout, Run("r", "/runs/r"), ports)


def worker(folder: Path, text: str) -> TaskPlan:
    return plan_of(folder, JOBS + text)[Task("worker", 1)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("args: ['--task_id={task_index}']", ["--task_id=1"]),
        (
            "args: [--job_name, '{job_name}', --task, '{task_index}']",
            ["--job_name", "worker", "--task", "1"],
        ),
        (
            "args: ['--controller_host={address:controller:0}']",
            ["--controller_host=127.0.0.1:2004"],
        ),
        ("args: ['--host={host:ps:1}', '--port={port:ps:1}']", ["--host=127.0.0.1", "--port=2001"]),
        (
            "args: ['--cluster_spec=ps|{ps_hosts:;},worker|{worker_hosts:;}']",
            [
                (
                    "--cluster_spec=ps|127.0.0.1:2000;127.0.0.1:2001,"
                    "worker|127.0.0.1:2002;127.0.0.1:2003"
                )
            ],
        ),
        ("args: ['{task_index}']", ["1"]),
        ("role_by: none", []),
        (
            "args: ['--job_name={job_name}', '{lr:0.1} {\"a\": 1} {{b}}']",
            ["--job_name=worker", '{lr:0.1} {"a": 1} {b}'],
        ),
    ],
)
def test_arguments(line: str, words: list[str], tmp_path: Path) -> None:
    assert list(worker(tmp_path, line).argv[2:]) == words


def test_environment(tmp_path: Path) -> None:
    env = worker(
        tmp_path,
        "env: {PS_HOSTS: '{ps_hosts}', JOB_INDEX: '{task_index}', CLUSTER_SPEC: "
        "'{cluster}', PORT: '{free_port}'}",
    ).env
    assert (env["PS_HOSTS"], env["JOB_INDEX"]) == ("127.0.0.1:2000,127.0.0.1:2001", "1")
    assert json.loads(env["CLUSTER_SPEC"])["worker"] == ["127.0.0.1:2004", "127.0.0.1:2005"]
    assert "TF_CONFIG" not in env


def test_a_tf_config_with_more_in_it(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text(encoding="utf-8")
    line = next(line for line in docs.splitlines() if '"environment": "cloud"' in line)
    told = json.loads(worker(tmp_path, line.split("`")[3]).env["TF_CONFIG"])
    assert (told["environment"], told["task"], len(told["cluster"]["ps"])) == (
        "cloud",
        {"type": "worker", "index": 1},
        2,
    )


def test_each_task_has_a_free_port_of_its_own_where_one_is_asked_for(tmp_path: Path) -> None:
    board = (
        "jobs:\n  worker: 2\n"
        "  tensorboard: {count: 1, run: [tensorboard, --port, '{free_port}']}\nports: 2300-2399\n"
    )
    made = plan_of(tmp_path, board)
    assert made[Task("tensorboard", 0)].argv[-1] == "2002"
    assert [task.free_port for task in made.tasks] == [None, None, 2002]
    assert Plan.from_json(made.to_json()).ports() == made.ports()
    file = load(tmp_path / "c.yaml", default_name="x")
    assert [
        (request.owner.job, request.is_extra, request.wanted)
        for request in lay_out(file).port_requests(file.ports)
    ] == [
        ("worker", False, "2300-2399"),
        ("worker", False, "2300-2399"),
        ("tensorboard", True, "2300-2399"),
    ]
    ports = {
        task.free_port
        for task in plan_of(tmp_path, JOBS + "args: ['{task_index}', '{free_port}']").tasks
    }
    assert len(ports) == 5


def test_a_command_a_folder_and_an_interpreter_for_each_job(tmp_path: Path) -> None:
    text = (
        "jobs:\n  ps: {run: [python, serve.py, '{task_index}']}\n"
        "  worker: {run: [-m, pkg.train, '{ps_hosts}'], python: py3, cwd: there}\n"
    )
    made = plan_of(tmp_path, text + "env: {TF_USE_LEGACY_KERAS: 1}\n")
    assert made[Task("ps", 0)].argv == ("python", "serve.py", "0")
    assert made[Task("worker", 0)].argv == ("py3", "-m", "pkg.train", "127.0.0.1:2000")
    assert (made[Task("worker", 0)].cwd, made[Task("ps", 0)].env["TF_USE_LEGACY_KERAS"]) == (
        "there",
        "1",
    )
