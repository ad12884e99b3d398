"""From a cluster file to arguments, environment and roles, where no file of cluster_specs/ shows it
(`test_golden_plans.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from script_sources import CLASSIC, LAUNCHER, plan_of

from psclust.errors import UsageError
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.diff import compare
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import GRPC_OPTIONS, THREADS, HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.plan.variables_home import follow
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile

PORTS = {
    Task(job, index): 1000 * number + index
    for number, job in enumerate(("ps", "worker", "chief", "client"), 2)
    for index in range(4)
}


def plan(
    *, launcher: HostEnvironment = LAUNCHER, script_text: str | None = None, **file: Any
) -> Plan:
    """`script_text`: the source of every job's program."""
    return plan_of(script_text, PORTS, launcher, **file)


def tail(entry: Plan, task: str) -> list[str]:
    """A task's arguments after the program."""
    return list(entry[Task.parse(task)].argv[2:])


def test_the_flags_of_a_script_come_beside_placeholders() -> None:
    made = plan(
        program="train.py",
        args=["--cluster=ps|{ps_hosts},worker|{worker_hosts}", "{{x}}"],
        script_text=CLASSIC,
    )
    assert tail(made, "worker:0") == [
        "--cluster=ps|127.0.0.1:2000,worker|127.0.0.1:3000,127.0.0.1:3001",
        "{x}",
        "--ps_hosts=127.0.0.1:2000",
        "--worker_hosts=127.0.0.1:3000,127.0.0.1:3001",
        "--job_name=worker",
        "--task_index=0",
    ]
    assert "TF_CONFIG" not in made[Task("worker", 0)].env


def test_extra_arguments_and_environment_of_one_job_and_one_task() -> None:
    worker = {
        "count": 2,
        "extra_args": ["--w"],
        "env": {"A": 1},
        "task_args": {1: ["--one"]},
        "task_env": {1: {"A": 2}},
    }
    made = plan(program="train.py", jobs={"ps": 1, "worker": worker}, role_by="none")
    assert tail(made, "worker:0") == ["--w"]
    assert tail(made, "worker:1") == ["--w", "--one"]
    assert [made[Task("worker", index)].env["A"] for index in (0, 1)] == ["1", "2"]
    assert tail(made, "ps:0") == []


def test_a_program_is_told_of_backup_workers_and_of_staleness_where_the_file_says_so() -> None:
    env = plan(program="pkg.train:program", update="sync", backup_workers=1)[Task("worker", 0)].env
    assert (env["PSCLUST_BACKUP_WORKERS"], "PSCLUST_MAX_STALENESS" in env) == ("1", False)
    env = plan(program="pkg.train:program", max_staleness=0)[Task("worker", 1)].env
    assert ("PSCLUST_BACKUP_WORKERS" in env, env["PSCLUST_MAX_STALENESS"]) == (False, "0")


@pytest.mark.parametrize(
    ("ends_with", "deciders"),
    [
        ("auto", ["chief:0"]),
        ("workers", ["worker:0", "worker:1"]),
        ("all", ["chief:0", "worker:0", "worker:1"]),
        ("never", []),
        (["worker", "chief"], ["chief:0", "worker:0", "worker:1"]),
    ],
)
def test_who_ends_the_run(ends_with: Any, deciders: list[str]) -> None:
    made = plan(program="train.py", jobs={"ps": 1, "worker": 2, "chief": 1}, ends_with=ends_with)
    assert [str(task.task) for task in made.tasks if task.decides] == deciders


def test_every_task_gets_an_environment_that_cannot_hang_and_listens_on_its_own_address() -> None:
    env = plan()[Task("ps", 0)].env
    # Servers of TensorFlow close the connection of a client that sends keepalive pings during a
    # quiet call.
    assert env["TF_GRPC_DEFAULT_OPTIONS"] == GRPC_OPTIONS
    assert "grpc.enable_http_proxy=0" in GRPC_OPTIONS.split(",")
    assert "keepalive" not in GRPC_OPTIONS
    # It would reach every server of the program.
    assert "TF_GRPC_REUSE_PORT" not in env
    assert env["PSCLUST_BIND"] == "127.0.0.1"
    assert env["PSCLUST_PORT"] == "2000"
    assert env["LD_PRELOAD"] == "/shim.so"
    assert env["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("lease", "told"), [(5, None), (30, None), (45.2, "91"), (100_000, "36000")]
)
def test_connections_outlive_a_cut_that_is_shorter_than_the_lease(
    lease: float, told: str | None
) -> None:
    file = ClusterFile.model_validate(
        {
            "name": "test",
            "hosts": [{"name": "a"}],
            "program": "train.py",
            "deadlines": {"lease": lease},
        },
        strict=False,
    )
    inputs = PlanInputs(file, {}, {"a": RemoteHost(LAUNCHER, "/runs/r1", "10.0.0.1")}, LAUNCHER)
    made = build_plan(inputs, inputs.lay_out(), Run("r1", "/runs/r1"), {})
    assert {task.env.get("PSCLUST_PEER_TIMEOUT") for task in made.tasks} == {told}


def test_what_the_user_has_set_stays() -> None:
    own = {"TF_GRPC_DEFAULT_OPTIONS": "grpc.x=1", "LD_PRELOAD": "/mine.so", "PYTHONUNBUFFERED": ""}
    made = plan(launcher=replace(LAUNCHER, environ=own), env={"TF_GRPC_WORKER_CACHE_QUEUES": 9})
    env = made[Task("worker", 0)].env
    assert "TF_GRPC_DEFAULT_OPTIONS" not in env
    assert "PYTHONUNBUFFERED" not in env
    assert env["LD_PRELOAD"] == "/mine.so:/shim.so"
    assert env["TF_GRPC_WORKER_CACHE_QUEUES"] == "9"


def test_gpus_are_counted_among_those_that_the_host_allows() -> None:
    allowed = replace(LAUNCHER, environ={"CUDA_VISIBLE_DEVICES": "2,GPU-5"})
    jobs = {"ps": 1, "worker": {"count": 2, "gpus": 1}}
    made = plan(launcher=allowed, program="train.py", jobs=jobs)
    assert [entry.env["CUDA_VISIBLE_DEVICES"] for entry in made.tasks] == ["", "2", "GPU-5"]
    with pytest.raises(
        UsageError,
        match=r"worker:2 is to see GPU 2 of its host, "
        r"but CUDA_VISIBLE_DEVICES there has 2: 2,GPU-5\. Ask for",
    ):
        plan(launcher=allowed, program="train.py", jobs={**jobs, "worker": {"count": 3, "gpus": 1}})


@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_the_devices_of_a_worker_reach_its_server_or_its_program(replication: str) -> None:
    made = plan(
        program="m:p",
        replication=replication,
        jobs={"ps": 1, "worker": {"count": 1, "device_count": 2}},
    )
    ps, worker = made[Task("ps", 0)], made[Task("worker", 0)]
    assert ("--device-count" in ps.argv, "PSCLUST_DEVICE_COUNT" in ps.env) == (False, False)
    told = (
        worker.argv[-2:] == ("--device-count", "2"),
        worker.env.get("PSCLUST_DEVICE_COUNT") == "2",
    )
    assert told == ((True, False) if replication == "in-graph" else (False, True))


def test_a_missing_shim_and_a_foreign_tf_config_are_said() -> None:
    made = plan(launcher=replace(LAUNCHER, shim=None, environ={"TF_CONFIG": "{}"}))
    assert any(
        "listen on every interface" in note and "wait for ever" in note for note in made.notes
    )
    assert any("TF_CONFIG in your environment" in note for note in made.notes)


def test_no_preload_executes_everything_plainly() -> None:
    made = plan(program="train.py", preload=False, jobs={"ps": {"run": "server"}, "worker": 1})
    assert [task.preload for task in made.tasks] == [None, None]


def test_a_python_server_is_a_plain_tf_train_server() -> None:
    made = plan(jobs={"ps": {"server": "python"}, "worker": 1})
    assert [task.argv[2] for task in made.tasks] == [
        "psclust.runtime.python_server",
        "psclust.runtime.bare_server",
    ]


def test_comparing_says_which_part_differs() -> None:
    old = plan(program="train.py", env={"A": 1})
    assert not compare(old, plan(program="train.py", env={"A": 1}))
    changed = compare(old, plan(program="train.py", env={"A": 2}, args=["x"]))
    assert changed.changed[Task("worker", 0)] == "argv, env.A"
    assert compare(
        old, plan(program="train.py", env={"A": 1}, jobs={"ps": 1, "worker": 2, "evaluator": 1})
    ).render() == ["+ evaluator:0"]


def test_rules_that_only_psclust_looks_at_change_no_task_and_are_applied() -> None:
    jobs = {"ps": 1, "worker": {"count": 2, "ok_exit_codes": [0, 3]}}
    limits = {"finish": 5, "run": 60, "lease": 9}
    new = plan(
        program="train.py", jobs=jobs, ends_with="never", restart={"max": 9}, deadlines=limits
    )
    changes = compare(plan(program="train.py"), new)
    assert changes
    assert changes.render() == [
        "~ deadlines.finish: 5",
        "~ deadlines.run: 60",
        "~ restart of ps: signal, at most 9",
        "~ restart of worker: signal, at most 9",
        "~ ok_exit_codes of worker: 0, 3",
        "~ ends_with: never",
    ]


@pytest.mark.parametrize(
    ("keys", "lost_s"),
    [
        ({"program": "psclust.examples.digits:program"}, 0.5),
        ({}, 0.5),
        ({"program": "psclust.examples.digits:program", "deadlines": {"stop": 0.1}}, 0.1),
        ({"program": "train.py"}, 10),
        ({"program": "train.py", "deadlines": {"stop": 3}}, 3),
        ({"jobs": {"ps": 1, "worker": {"run": ["python", "train.py"]}}}, 10),
    ],
)
def test_only_programs_of_others_have_something_to_end_on_a_host_that_is_lost(
    keys: dict[str, Any], lost_s: float
) -> None:
    assert plan(**keys).deadlines.lost_s == lost_s


def test_agents_of_a_live_run_wait_as_long_as_they_were_told() -> None:
    old = plan(program="train.py", deadlines={"stop": 3})
    new = follow(old, plan(program="train.py", deadlines={"stop": 1, "finish": 5}))
    limits = new.deadlines
    assert (limits.stop_s, limits.lost_s, limits.finish_s) == (1, 3, 5)


def test_what_follows_a_death_is_part_of_the_plan_and_changes_no_task() -> None:
    old, new = plan(), plan(on_ps_failure="restart-all", on_worker_failure="fail")
    assert (old.on_ps_failure, old.on_worker_failure) == ("restart-ps", "restart-worker")
    assert (new.on_ps_failure, new.on_worker_failure) == ("restart-all", "fail")
    changes = compare(old, new)
    assert not changes.changed
    assert changes.render() == ["~ on_ps_failure: restart-all", "~ on_worker_failure: fail"]
    assert Plan.from_json(new.to_json()) == new


def test_a_command_that_begins_with_python_means_the_interpreter_of_the_cluster() -> None:
    made = plan(
        python="/opt/tf/bin/python",
        jobs={
            "ps": {"run": ["python", "ps.py", "{port}"]},
            "worker": {"run": ["python3", "-m", "w"]},
        },
    )
    assert made[Task("ps", 0)].argv == ("/opt/tf/bin/python", "ps.py", "2000")
    assert made[Task("worker", 0)].argv == ("/opt/tf/bin/python", "-m", "w")
    assert {task.preload for task in made.tasks} == {"tensorflow"}
    alone = plan(program=["python"], args=["-c", "1"], jobs={"worker": 1})[Task("worker", 0)]
    assert (alone.argv[1:], alone.preload) == (("-c", "1"), "tensorflow")


@pytest.mark.parametrize(
    "command",
    [
        ["python3.11", "w.py"],
        ["/usr/bin/python3", "w.py"],
        ["python", "-u", "w.py"],
        ["python"],
        ["sh", "-c", "python w.py"],
    ],
)
def test_other_commands_are_executed(command: list[str]) -> None:
    made = plan(jobs={"worker": {"run": command}})
    assert made[Task("worker", 0)].argv[1:] == tuple(command[1:])
    assert made[Task("worker", 0)].preload is None
    assert made[Task("worker", 0)].argv[0] == ("python" if command[0] == "python" else command[0])


def test_tasks_of_a_psclust_program_are_forked_from_one_that_has_imported_psclust() -> None:
    made = plan(program="train:program", jobs={"worker": 1})
    assert made[Task("worker", 0)].preload == "psclust"


def test_tasks_of_a_script_that_names_keras_are_forked_from_one_that_has_imported_it() -> None:
    made = plan(program="train.py", script_text="from tensorflow.keras import layers\n")
    assert {task.preload for task in made.tasks} == {"keras"}


def test_only_a_task_whose_environment_no_other_shares_is_executed() -> None:
    shared = plan(program="train.py", env={"TF_USE_LEGACY_KERAS": 1, "LR": "{task_index}"})
    assert {task.preload for task in shared.tasks} == {"tensorflow"}
    own = plan(
        program="train.py",
        jobs={"ps": 1, "worker": {"count": 2, "task_env": {1: {"OMP_NUM_THREADS": 2, "LR": 3}}}},
    )
    assert [task.preload for task in own.tasks] == ["tensorflow", "tensorflow", None]
    filled = plan(
        jobs={
            "ps": {"env": {"PYTHONHASHSEED": "{task_index}"}},
            "worker": {"env": {"TF_CPP_VMODULE": "{job_name}=1"}},
        }
    )
    assert [task.preload for task in filled.tasks] == ["library", None]


def test_a_program_that_hides_a_module_of_tensorflow_is_executed_and_said_so() -> None:
    facts = ScriptFacts(may_read_role=True, hides="six.py")
    file = ClusterFile(name="t", jobs={"worker": 2}, program="train.py")
    inputs = PlanInputs(file, {"worker": facts}, {}, LAUNCHER)
    made = build_plan(inputs, inputs.lay_out(), Run("r", "/r"), PORTS)
    assert {task.preload for task in made.tasks} == {None}
    assert any(note.startswith("six.py in the program's folder hides") for note in made.notes)


@pytest.mark.parametrize(
    ("cores", "counts", "environ", "threads"),
    [
        (8, {"ps": 2, "worker": 3}, {}, ["4", "4", "2", "2", "2"]),
        (2, {"ps": 1, "worker": 3}, {}, [None, "1", "1", "1"]),
        (8, {"ps": 1, "worker": 1}, {}, [None, None]),
        (8, {"ps": 1, "worker": 2}, {THREADS: "5"}, [None, None, None]),
        (None, {"ps": 1, "worker": 2}, {}, [None, None, None]),
    ],
)
def test_tasks_of_a_job_share_the_cores_of_their_host(
    cores: int | None, counts: dict[str, int], environ: dict[str, str], threads: list[str | None]
) -> None:
    made = plan(launcher=replace(LAUNCHER, cores=cores, environ=environ), jobs=counts)
    assert [task.env.get(THREADS) for task in made.tasks] == threads
    said = plan(
        launcher=replace(LAUNCHER, cores=cores, environ=environ), jobs=counts, env={THREADS: "7"}
    )
    assert {task.env[THREADS] for task in said.tasks} == {"7"}


def test_a_task_keeps_its_threads_when_another_comes() -> None:
    made = plan(launcher=replace(LAUNCHER, cores=8))
    other = plan(launcher=replace(LAUNCHER, cores=2))
    assert made[Task("worker", 0)].env[THREADS] != other[Task("worker", 0)].env[THREADS]
    assert not compare(made, other)
