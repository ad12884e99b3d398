"""What `role_by: auto` gives the tasks of a script, by what its source and the user's own words say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from psclust.launch.program_sources import read_scripts
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.cluster_layout import lay_out
from psclust.plan.script_facts import ScriptFacts, read_facts
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile

LAUNCHER = HostEnvironment(environ={}, cwd="/project", python="python", shim="/shim.so")
ALL = ("--ps_hosts", "--worker_hosts", "--job_name", "--task_index")
CLASSIC = "".join(f'p.add_argument("{flag}")\n' for flag in ALL)
READS = 'import os\ntold = os.environ["TF_CONFIG"]\n'
SILENT = "print('hello')\n"


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        (CLASSIC, ALL),
        ('flags.DEFINE_string("job_name", "", "")\nflags.DEFINE_integer("task_index", 0, "")', ALL[2:]),
        ('for name in ("ps_hosts", "worker_hosts"):\n    tf.app.flags.DEFINE_string(name, "", "")', ALL[:2]),
        ('PLACES = [("ps_hosts", ""), ("job_name", "")]\nfor n, h in PLACES:\n    p.add_argument("--" + n, help=h)', (ALL[0], ALL[2])),
        ('[p.add_argument(flag) for flag in ("--job_name", "--task_index")]', ALL[2:]),
        ('@click.option("--job-name")\n@click.option("--task-index")\ndef main(): ...', ("--job-name", "--task-index")),
        ("print(FLAGS.job_name, FLAGS.task_index)", ALL[2:]),
        ('print(settings.get("job_name"), settings["task_index"])', ()),
        ('parser.add_argument("--job_name"', ()),
    ],
)
def test_the_flags_a_script_defines_are_found_in_its_source(source: str, flags: tuple[str, ...]) -> None:
    assert read_facts([source]).flags == flags


@pytest.mark.parametrize(
    ("source", "reads", "may_read"),
    [
        (READS, True, True),
        ('if "TF_CONFIG" in os.environ: pass', True, True),
        ("tf.distribute.cluster_resolver.TFConfigClusterResolver()", True, True),
        ('os.environ["TF_CONFIG"] = text', False, False),
        ('os.environ.pop("TF_CONFIG", None)', False, False),
        ('"""Sets TF_CONFIG."""', False, False),
        ("tf.estimator.RunConfig()", False, True),
        ('os.environ["PSCLUST_TASK"]', False, True),
        (SILENT, False, False),
    ],
)
def test_whether_a_script_reads_tf_config(source: str, reads: bool, may_read: bool) -> None:
    facts = read_facts([source])
    assert (facts.reads_tf_config, facts.may_read_role) == (reads, may_read)


def made(source: str | None, **keys: Any) -> tuple[TaskPlan, tuple[str, ...]]:
    """worker:0, and the notes, of a script with this source."""
    file = ClusterFile(**{"name": "test", "jobs": {"ps": 1, "worker": 2}, "program": "train.py", **keys})
    scripts = {entry.name: read_facts([source]) for entry in lay_out(file).jobs} if source is not None else {}
    plan = build_plan(file, LAUNCHER, Run("r", "/runs/r"), {}, scripts=scripts)
    return plan[Task("worker", 0)], plan.notes


def told(task: TaskPlan) -> tuple[list[str], bool]:
    """The names of the classic flags it gets, and whether it gets TF_CONFIG."""
    return [name for name in ALL if any(word.startswith(f"{name}=") for word in task.argv)], "TF_CONFIG" in task.env


@pytest.mark.parametrize(
    ("source", "keys", "expected"),
    [
        (CLASSIC, {}, (list(ALL), False)),
        # A folder of the run is no place in a cluster.
        (CLASSIC, {"args": ["--data={run_dir}/data", "--n={num_workers}"]}, (list(ALL), False)),
        (READS, {"env": {"OUT": "{run_dir}", "RUN": "{name}"}}, ([], True)),
        (READS, {"args": ["--board={free_port}"]}, ([], True)),
        # Only what it defines, and TF_CONFIG beside it where it reads that.
        ('p.add_argument("--job_name")\np.add_argument("--task_index")', {}, (["--job_name", "--task_index"], False)),
        (CLASSIC + READS, {}, (list(ALL), True)),
        (CLASSIC + 'os.environ["TF_CONFIG"] = made', {}, (list(ALL), False)),
        ('p.add_argument("--job_name")' + "\n" + READS, {}, ([], True)),
        # What the user says of the cluster stands alone.
        (CLASSIC + READS, {"args": ["--cluster={cluster}", "--me={task_index}"]}, ([], False)),
        (CLASSIC + READS, {"env": {"MASTER": "{address:ps:0}"}}, ([], False)),
        (READS, {"env": {"TF_CONFIG": "own"}}, ([], True)),
        # A task's own index is no cluster: the rest comes as the script asks for it, and never twice.
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
def test_what_a_task_is_told(source: str | None, keys: dict[str, Any], expected: tuple[list[str], bool]) -> None:
    assert told(made(source, **keys)[0]) == expected


def test_a_flag_that_the_user_gives_is_not_given_again() -> None:
    task, _ = made(CLASSIC, jobs={"ps": 1, "worker": {"extra_args": ["--job_name", "worker", "--task_index={task_index}"]}})
    assert task.argv[2:] == ("--job_name", "worker", "--task_index=0", "--ps_hosts=127.0.0.1:auto", "--worker_hosts=127.0.0.1:auto")


def test_flags_are_spelt_as_the_script_spells_them() -> None:
    assert made('@click.option("--job-name")\n@click.option("--task-index")\ndef main(): ...')[0].argv[2:] == (
        "--job-name=worker",
        "--task-index=0",
    )


def test_a_script_of_several_tasks_that_nothing_tells_its_place_is_named_and_so_is_the_cure() -> None:
    for source, what in ((SILENT, "defines none of --ps_hosts"), ('p.add_argument("--task_index")', "defines only --task_index")):
        _, notes = made(source)
        assert what in notes[0]
        assert "no task learns its role" in notes[0]
        assert "{worker_hosts}" in notes[0]
    assert "seems not to read TF_CONFIG" in made(SILENT, program=["python", "train.py"])[1][0]
    for silent in ({"role_by": "none"}, {"jobs": {"worker": 1}}, {"args": ["{task_index}"]}, {"program": ["./train.sh"]}):
        assert not any("no task learns" in note for note in made(SILENT, **silent)[1])
    assert not any("no task learns" in note for note in made("tf.estimator.RunConfig()")[1])


def test_each_guess_has_words_for_a_failure_and_the_users_own_word_has_none() -> None:
    assert "psclust gave it --ps_hosts, --worker_hosts, --job_name and --task_index" in (made(CLASSIC)[0].failure_hint or "")
    assert "role_by: flags or none" in (made(SILENT)[0].failure_hint or "")
    assert made(CLASSIC, role_by="flags")[0].failure_hint is None
    assert made(CLASSIC, args=["--cluster={cluster}"])[0].failure_hint is None


def test_flags_are_found_in_what_a_script_imports_from_beside_it(tmp_path: Path) -> None:
    (tmp_path / "pkg" / "inner").mkdir(parents=True)
    (tmp_path / "train.py").write_text("import os, tensorflow\nfrom pkg import run\nrun.main()\n")
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "run.py").write_text("from .inner.place import define\nimport train\n")
    (tmp_path / "pkg" / "inner" / "place.py").write_text(CLASSIC)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "told.py").write_text(READS)
    for program in ("train.py", "-m pkg.run", ["python", "-m", "pkg.run"]):
        file = ClusterFile(name="x", program=program, cwd=str(tmp_path))
        assert read_scripts(file, lay_out(file), {})["worker"] == ScriptFacts(ALL)
    (tmp_path / "train.py").write_text("import told\n")
    file = ClusterFile(name="x", program="train.py", cwd=str(tmp_path), env={"PYTHONPATH": "lib"})
    assert read_scripts(file, lay_out(file), {})["ps"].reads_tf_config
    file = ClusterFile(name="x", program="gone.py", cwd=str(tmp_path))
    assert read_scripts(file, lay_out(file), {}) == {}


def test_flags_that_leave_out_who_a_task_is_are_named() -> None:
    own = 'p.add_argument("--ps_hosts"); p.add_argument("--worker_hosts"); p.add_argument("--job_name"); p.add_argument("--task_id")'
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
    jobs = {"worker": {"count": 2, "run": ["./server"]}, "trainer": {"in_cluster": False, "run": ["python", "train.py"]}}
    assert not [note for note in made(SILENT, jobs=jobs)[1] if "no task learns" in note]
