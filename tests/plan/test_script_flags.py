"""What `role_by: auto` gives the tasks of a script, by what its source and the user's own words
say."""

from __future__ import annotations

from typing import Any

import pytest
from script_sources import ALL, CLASSIC, READS, SILENT, plan_of

from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task


def made(source: str | None, **keys: Any) -> tuple[TaskPlan, tuple[str, ...]]:
    """worker:0, and the notes, of a script with this source."""
    plan = plan_of(source, **{"program": "train.py", **keys})
    return plan[Task("worker", 0)], plan.notes


def told(task: TaskPlan) -> tuple[list[str], bool]:
    """The names of the classic flags it gets, and whether it gets TF_CONFIG."""
    return [
        name for name in ALL if any(word.startswith(f"{name}=") for word in task.argv)
    ], "TF_CONFIG" in task.env


@pytest.mark.parametrize(
    ("source", "keys", "expected"),
    [
        (CLASSIC, {}, (list(ALL), False)),
        # A folder of the run is no place in a cluster.
        (CLASSIC, {"args": ["--data={run_dir}/data", "--n={num_workers}"]}, (list(ALL), False)),
        (READS, {"env": {"OUT": "{run_dir}", "RUN": "{name}"}}, ([], True)),
        (READS, {"args": ["--board={free_port}"]}, ([], True)),
        # Only what it defines, and TF_CONFIG beside it where it reads that.
        (
            'p.add_argument("--job_name")\np.add_argument("--task_index")',
            {},
            (["--job_name", "--task_index"], False),
        ),
        (CLASSIC + READS, {}, (list(ALL), True)),
        (CLASSIC + 'os.environ["TF_CONFIG"] = made', {}, (list(ALL), False)),
        ('p.add_argument("--job_name")' + "\n" + READS, {}, ([], True)),
        # A placeholder takes the place of one flag, not of the others.
        (
            CLASSIC + READS,
            {"args": ["--cluster={cluster}", "--me={task_index}"]},
            (list(ALL), True),
        ),
        (CLASSIC, {"env": {"MASTER": "{address:ps:0}"}}, (list(ALL), False)),
        (CLASSIC, {"args": ["--cluster=ps|{ps_hosts},worker|{worker_hosts}"]}, (list(ALL), False)),
        (READS, {"env": {"TF_CONFIG": "own"}}, ([], True)),
        (CLASSIC, {"env": {"TF_CONFIG": "own"}}, (list(ALL), True)),
        (SILENT, {"args": ["--place={tf_config}"]}, ([], False)),
        # One flag is enough if it completes what the user gives.
        (
            'p.add_argument("--job_name")',
            {"args": ["--task_id={task_index}"]},
            (["--job_name"], False),
        ),
        ('p.add_argument("--job_name")', {"args": ["--shard={job_name}"]}, ([], False)),
        # A task's own index is no cluster: the rest comes as the script asks for it, and never
        # twice.
        (CLASSIC, {"args": ["--shard={task_index}"]}, (list(ALL), False)),
        (READS, {"args": ["--shard={task_index}"]}, ([], True)),
        (SILENT, {"args": ["{job_name}/{task_index}"]}, ([], False)),
        # What cannot be read is told as most scripts are.
        (None, {}, ([], True)),
        (SILENT, {}, ([], True)),
        # The user's own word.
        (CLASSIC, {"role_by": "tf_config"}, ([], True)),
        (CLASSIC, {"role_by": "none"}, ([], False)),
        (SILENT, {"role_by": "flags"}, (list(ALL), False)),
        # Behind an interpreter.
        (CLASSIC, {"program": ["python3", "train.py"]}, (list(ALL), False)),
        (CLASSIC, {"program": "python", "args": ["train.py", "--lr", "0.1"]}, (list(ALL), False)),
        (READS, {"program": ["python", "-m", "pkg.train"]}, ([], True)),
        (SILENT, {"program": ["python", "train.py"]}, ([], False)),
        (CLASSIC, {"program": ["./train.sh"]}, ([], False)),
        (SILENT, {"program": ["./train.sh"], "role_by": "tf_config"}, ([], True)),
    ],
)
def test_what_a_task_is_told(
    source: str | None, keys: dict[str, Any], expected: tuple[list[str], bool]
) -> None:
    assert told(made(source, **keys)[0]) == expected


def test_a_flag_that_the_user_gives_is_not_given_again() -> None:
    task, _ = made(
        CLASSIC,
        jobs={
            "ps": 1,
            "worker": {"extra_args": ["--job_name", "worker", "--task_index={task_index}"]},
        },
    )
    assert task.argv[2:] == (
        "--job_name",
        "worker",
        "--task_index=0",
        "--ps_hosts=127.0.0.1:auto",
        "--worker_hosts=127.0.0.1:auto",
    )


def test_the_addresses_of_every_job_of_the_cluster_are_given() -> None:
    source = (
        CLASSIC
        + 'F.DEFINE_string("chief_hosts", "", ""); F.DEFINE_string("evaluator_hosts", "", ""); '
        'F.DEFINE_string("num_hosts", "", "")'
    )
    jobs: dict[str, Any] = {"ps": 1, "chief": 1, "worker": 1, "evaluator": 1}
    for role_by in ("auto", "flags"):
        task, notes = made(source, jobs=jobs, role_by=role_by)
        assert [word.partition("=")[0] for word in task.argv[2:] if "hosts" in word] == [
            "--ps_hosts",
            "--worker_hosts",
            "--chief_hosts",
        ]
    task, notes = made(source, jobs={**jobs, "evaluator": {"in_cluster": True}})
    assert "--evaluator_hosts=127.0.0.1:auto" in task.argv
    assert "No task gets" not in notes[0]
    assert (
        "No task gets --evaluator_hosts: the cluster spec does not list the evaluator"
        in made(source, jobs=jobs)[1][0]
    )
    assert (
        "No task gets --chief_hosts: the cluster has no chief (--job chief=1 adds one)"
        in made(source)[1][0]
    )
    assert "No task gets" not in "".join(made(CLASSIC + 'F.DEFINE_string("num_hosts", "", "")')[1])


@pytest.mark.parametrize("role_by", ["auto", "flags"])
def test_no_flag_is_given_beside_the_users_own(role_by: str) -> None:
    task, _ = made(
        '@click.option("--job-name")\n@click.option("--task-index")\ndef main(): ...',
        args=["--job-name=w"],
        role_by=role_by,
    )
    assert [word for word in task.argv if "job" in word] == ["--job-name=w"]
    assert "--task-index=0" in task.argv


def test_flags_are_spelt_as_the_script_spells_them() -> None:
    task, _ = made('@click.option("--job-name")\n@click.option("--task-index")\ndef main(): ...')
    assert task.argv[2:] == ("--job-name=worker", "--task-index=0")


def test_a_script_of_several_tasks_that_nothing_tells_its_place_is_named_with_the_cure() -> None:
    for source, what in (
        (SILENT, "defines none of --ps_hosts"),
        ('p.add_argument("--task_index")', "defines only --task_index"),
    ):
        _, notes = made(source)
        assert what in notes[0]
        assert "no task learns its role" in notes[0]
        assert "{worker_hosts}" in notes[0]
    assert "seems not to read TF_CONFIG" in made(SILENT, program=["python", "train.py"])[1][0]
    for silent in (
        {"role_by": "none"},
        {"jobs": {"worker": 1}},
        {"args": ["{task_index}"]},
        {"program": ["./train.sh"]},
    ):
        assert not any("no task learns" in note for note in made(SILENT, **silent)[1])
    assert not any("no task learns" in note for note in made("tf.estimator.RunConfig()")[1])


def test_each_guess_has_words_for_a_failure_and_the_users_own_word_has_none() -> None:
    assert "psclust gave it --ps_hosts, --worker_hosts, --job_name and --task_index" in (
        made(CLASSIC)[0].failure_hint or ""
    )
    assert "role_by: flags or none" in (made(SILENT)[0].failure_hint or "")
    assert made(CLASSIC, role_by="flags")[0].failure_hint is None
    args = ["--cluster={cluster}", "--me={task_index}", "--job={job_name}"]
    assert made(SILENT, args=args)[0].failure_hint is None


def test_flags_that_leave_out_who_a_task_is_are_named() -> None:
    own = (
        'p.add_argument("--ps_hosts"); p.add_argument("--worker_hosts"); '
        'p.add_argument("--job_name"); p.add_argument("--task_id")'
    )
    task, notes = made(own)
    assert "defines no --task_index, so two of its tasks would take the same role" in notes[0]
    assert "--task_id={task_index}" in notes[0] or "--task_index={task_index}" in notes[0]
    assert task.failure_hint is not None
    assert "defines no --task_index" in task.failure_hint
    assert "take the same role" not in "".join(made(own, args=["--task_id={task_index}"])[1])
    assert "take the same role" not in "".join(made(CLASSIC)[1])
    assert "take the same role" not in "".join(made(own, jobs={"ps": 1, "worker": 1})[1])


def test_a_script_with_addresses_of_its_own_is_led_to_the_key_for_them() -> None:
    fixed = 'p.add_argument("--job_name"); p.add_argument("--task_index")'
    assert "`addresses:`" in made(fixed)[1][0]
    assert "`addresses:`" not in "".join(made(CLASSIC)[1])


def test_a_lone_client_outside_the_cluster_needs_no_place() -> None:
    jobs = {
        "worker": {"count": 2, "run": ["./server"]},
        "trainer": {"in_cluster": False, "run": ["python", "train.py"]},
    }
    assert not [note for note in made(SILENT, jobs=jobs)[1] if "no task learns" in note]


@pytest.mark.parametrize(
    "args",
    [
        ["--controller={address:worker:0}"],
        ["--cluster=ps|{ps_hosts},worker|{worker_hosts}"],
        ["{cluster}"],
    ],
)
def test_addresses_alone_are_no_role(args: list[str]) -> None:
    assert "no task learns its role" in made(SILENT, args=args)[1][0]
    assert not made(SILENT, args=args, role_by="none")[1]
    assert "no task learns" not in "".join(
        made(SILENT, args=args, jobs={"ps": {"run": "server"}, "worker": 1})[1]
    )


def test_a_script_that_gets_half_of_its_role_by_placeholders_is_named() -> None:
    for args, what in (
        (["--task={task_index}"], "--job_name"),
        (["--job={job_name}"], "--task_index"),
    ):
        assert made(SILENT, args=args)[1] == (
            f"train.py defines no {what}, so two of its tasks would take the same role, "
            "unless you give another flag, such as "
            + ("--job={job_name}." if what == "--job_name" else "--task_id={task_index}."),
        )
    ps = {"count": 1, "extra_args": ["ps"]}
    for complete in (
        {"args": ["{job_name}", "{task_index}"]},
        {"args": ["{address}"]},
        {"args": ["--task={task_index}"], "jobs": {"ps": ps, "worker": 2}},
        {"args": ["--task={task_index}"], "jobs": {"ps": {"run": "server"}, "worker": 2}},
    ):
        assert made(SILENT, **complete)[1] == ()


FIXED = (
    'server = tf.train.Server(tf.train.ClusterSpec({"ps": ["localhost:1"], "worker": '
    '["localhost:2"]}))\n'
)
TWO_FLAGS = 'p.add_argument("--job_name"); p.add_argument("--task_index")\n'


@pytest.mark.parametrize(
    ("source", "keys", "asks"),
    [
        (FIXED, {"args": ["{job_name}", "{task_index}"]}, True),
        (FIXED + TWO_FLAGS, {"args": ["--job_name={job_name}", "--task_index={task_index}"]}, True),
        (FIXED + TWO_FLAGS, {}, True),
        (FIXED + CLASSIC, {"args": ["--ps_hosts=a:1", "--worker_hosts=b:1"]}, True),
        (FIXED, {"args": ["{job_name}", "{task_index}", "{cluster}"]}, False),
        (FIXED, {"args": ["{address}"]}, False),
        (FIXED + READS, {"args": ["{job_name}", "{task_index}"]}, False),
        (FIXED, {"args": ["{job_name}", "{task_index}"], "role_by": "none"}, False),
        (CLASSIC, {}, False),
        (SILENT, {}, False),
        (None, {"args": ["{job_name}"]}, False),
    ],
)
def test_a_script_that_learns_no_addresses_is_asked_for_them_and_not_expected_at_psclusts(
    source: str | None, keys: dict[str, Any], asks: bool
) -> None:
    plan = plan_of(source, program="train.py", **keys)
    assert ("under `addresses:`" in "".join(plan.notes)) is asks
    assert plan[Task("ps", 0)].listens is not (asks or keys.get("role_by") == "none")


def test_a_ps_with_addresses_of_its_own_is_expected_there() -> None:
    jobs = {"ps": {"addresses": ["127.0.0.1:1"]}, "worker": {"addresses": ["127.0.0.1:2"]}}
    plan = plan_of(FIXED, jobs=jobs, program="train.py", args=["{job_name}", "{task_index}"])
    assert plan[Task("ps", 0)].listens


def test_advice_about_addresses_ends_when_every_job_of_the_script_has_them() -> None:
    ps, worker = {"addresses": ["127.0.0.1:1"]}, {"addresses": ["127.0.0.1:2", "127.0.0.1:3"]}
    for source, args in ((TWO_FLAGS, []), (FIXED, ["{job_name}", "{task_index}"])):
        assert "`addresses:`" not in "".join(
            made(source, jobs={"ps": ps, "worker": worker}, args=args)[1]
        )
        assert "`addresses:`" not in "".join(
            made(source, jobs={"ps": {"run": "server"}, "worker": worker}, args=args)[1]
        )
        assert (
            "`addresses:` of worker ("
            in made(source, jobs={"ps": ps, "worker": 2}, args=args)[1][0]
        )
        assert "`addresses:` of ps and worker (" in made(source, args=args)[1][0]


def test_a_program_of_one_task_is_told_by_its_name() -> None:
    jobs = {
        "ps": {"run": ["python", "ps.py"]},
        "worker": {"count": 2, "env": {"TASK": "{task_index}"}},
    }
    assert not [note for note in made(SILENT, jobs=jobs)[1] if "role" in note]


@pytest.mark.parametrize("source", [READS, CLASSIC, CLASSIC + "\n" + READS])
def test_the_one_task_that_runs_a_script_is_named_in_its_note(source: str) -> None:
    jobs = {"ps": {"run": "server"}, "worker": {"count": 2, "run": "server"}, "chief": 1}
    assert ": chief:0 gets " in made(source, jobs=jobs)[1][0]
    assert ": each task gets " in made(source, jobs={**jobs, "evaluator": 1})[1][0]
