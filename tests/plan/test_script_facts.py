"""What is found out about a script from its source, and from what it imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_sources import ALL, CLASSIC, READS, SILENT

from psclust.launch.program_sources import read_scripts
from psclust.plan.cluster_layout import lay_out
from psclust.plan.script_facts import ScriptFacts, read_facts
from psclust.spec.cluster_file import ClusterFile


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        (CLASSIC, ALL),
        (
            'flags.DEFINE_string("job_name", "", "")\nflags.DEFINE_integer("task_index", 0, "")',
            ALL[2:],
        ),
        (
            (
                'for name in ("ps_hosts", "worker_hosts"):\n'
                '    tf.app.flags.DEFINE_string(name, "", "")'
            ),
            ALL[:2],
        ),
        (
            (
                'PLACES = [("ps_hosts", ""), ("job_name", "")]\nfor n, h in PLACES:\n'
                '    p.add_argument("--" + n, help=h)'
            ),
            (ALL[0], ALL[2]),
        ),
        ('[p.add_argument(flag) for flag in ("--job_name", "--task_index")]', ALL[2:]),
        (
            '@click.option("--job-name")\n@click.option("--task-index")\ndef main(): ...',
            ("--job-name", "--task-index"),
        ),
        ("print(FLAGS.job_name, FLAGS.task_index)", ALL[2:]),
        ('print(settings.get("job_name"), settings["task_index"])', ()),
        ('parser.add_argument("--job_name"', ()),
        # The addresses of any job.
        (
            'for n in ("worker_hosts", "chief_hosts", "job_name"): F.DEFINE_string(n, "", "")',
            ("--worker_hosts", "--chief_hosts", "--job_name"),
        ),
    ],
)
def test_the_flags_a_script_defines_are_found_in_its_source(
    source: str, flags: tuple[str, ...]
) -> None:
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
        ("tf.distribute.ParameterServerStrategy(resolver)", False, True),
        ("tf.distribute.ParameterServerStrategy(SimpleClusterResolver(spec))", False, True),
        (
            (
                "tf.distribute.Server(spec); "
                "tf.distribute.ParameterServerStrategy(SimpleClusterResolver(spec))"
            ),
            False,
            False,
        ),
        ('os.environ["PSCLUST_TASK"]', False, True),
        (SILENT, False, False),
    ],
)
def test_whether_a_script_reads_tf_config(source: str, reads: bool, may_read: bool) -> None:
    facts = read_facts([source])
    assert (facts.reads_tf_config, facts.may_read_role) == (reads, may_read)


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
