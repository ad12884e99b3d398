"""How scripts learn their role with `psclust up`, and what is found missing before anything
starts."""

from __future__ import annotations

import json

import pytest

from beds.command import CommandBed

pytestmark = pytest.mark.process

READS = "import json, os\ntold = json.loads(os.environ['TF_CONFIG'])\n"
JOBS = "jobs: {worker: 2}\npreload: false\nprogram: train.py\n"


def test_a_script_without_a_role_is_named_first_and_a_failure_about_that_repeats_the_guess(
    bed: CommandBed,
) -> None:
    bed.write(
        "train.py",
        "import argparse\nparser = argparse.ArgumentParser()\nprint('alone')\n"
        "parser.error('argument --role: no value')\n",
    )
    bed.write("psclust.yaml", JOBS)
    said = bed.fails(1, "up")
    assert said.index("no task learns its role") < said.index(" | alone")
    failure = next(line for line in said.splitlines() if "failed after" in line)
    assert (
        "exited with code 2; psclust gave it TF_CONFIG and no flags; "
        "if that is wrong write role_by: flags or none" in failure
    )
    bed.write("train.py", "import sys\nprint('alone')\nsys.exit(2)\n")
    said = bed.fails(1, "up")
    failure = next(line for line in said.splitlines() if "failed after" in line)
    assert failure.endswith("exited with code 2")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nosuch.py",), "nosuch.py: No such file or directory in "),
        (("--", "python", "nosuch.py"), "nosuch.py: No such file or directory in "),
        (("-m", "nosuch.train"), "-m nosuch.train: there is no module 'nosuch'"),
        (("-m", "pkg.nosuch"), "-m pkg.nosuch: there is no module 'pkg.nosuch'"),
        (("-m", "pkg"), "-m pkg: pkg is a package without __main__.py"),
        (("nosuch:program",), "nosuch:program: there is no module 'nosuch'"),
        (
            ("pkg.prog:progam",),
            "pkg.prog:progam: module 'pkg.prog' has no 'progam'; did you mean 'program'?",
        ),
        (
            ("psclust.examples.digits:progarm",),
            "module 'psclust.examples.digits' has no 'progarm'; it has program",
        ),
        (
            ("--python", "/nonexistent/python", "pkg/prog.py"),
            "/nonexistent/python: there is no such interpreter",
        ),
        (("--python", "/nonexistent/python"), "/nonexistent/python: there is no such interpreter"),
        (("--", "no-such-command", "--x"), "no-such-command: there is no such command on the PATH"),
        (("--", "./pkg"), "./pkg: cannot be executed"),
    ],
)
def test_what_is_not_there_is_found_before_anything_starts(
    bed: CommandBed, words: tuple[str, ...], sentence: str
) -> None:
    (bed.folder / "pkg").mkdir()
    bed.write("pkg/__init__.py", "")
    bed.write("pkg/prog.py", "import psclust\nif True:\n    program = psclust\n")
    for verb in ("plan", "up"):
        said = bed.fails_here(2, verb, *words)
        assert sentence in said
        assert "Traceback" not in said
        assert " is up" not in said
    assert not bed.state.exists()


@pytest.mark.long
def test_all_that_is_missing_is_named_at_once_and_what_cannot_be_known_passes(
    bed: CommandBed,
) -> None:
    bed.write(
        "psclust.yaml",
        "jobs:\n  a: {run: [gone.py]}\n  b: {run: [./gone]}\n  c: {run: [cat], cwd: gone}\n",
    )
    said = bed.fails(2, "up")
    assert [line.split(": ")[1] for line in said.splitlines()] == ["gone.py", "./gone", "gone"]
    bed.write("hidden.py", "globals()['program'] = 1\n")
    bed.write(
        "psclust.yaml",
        "jobs:\n  a: {run: ['{run_dir}/made-later.py']}\n  b: {run: ['hidden:program']}\n",
    )
    code, said = bed.run("plan", "--json")
    assert code in (0, 2), said
    assert "there is no" not in said
    assert "has no" not in said


def test_a_free_port_is_there_for_any_server_of_a_task(bed: CommandBed) -> None:
    bed.write(
        "train.py",
        "import socket, sys\nserver = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "print('served on', sys.argv[1])\n",
    )
    bed.write("psclust.yaml", JOBS + "role_by: none\nargs: ['{free_port}']\n")
    said = bed.done("up")
    ports = {line.rpartition(" ")[2] for line in said.splitlines() if "served on" in line}
    assert len(ports) == 2
    plan = json.loads(bed.run_folder().plan.read_text(encoding="utf-8"))
    assert {str(task["free_port"]) for task in plan["tasks"]} == ports


def test_a_failure_that_is_known_is_followed_by_its_remedy_once(bed: CommandBed) -> None:
    bed.write(
        "train.py",
        READS + "raise AttributeError(\"module 'tensorflow' has no attribute 'estimator'\")\n",
    )
    bed.write("psclust.yaml", JOBS)
    said = bed.fails(1, "up")
    assert said.count("psclust.Program (docs/tasks/estimator.md)") == 1
    assert "role_by: flags or none" not in said
    status = json.loads(bed.run("ps", "--json")[1])
    assert status["remedy"].endswith("psclust.Program (docs/tasks/estimator.md)")


def test_a_cluster_file_of_another_name_is_pointed_to_where_nothing_else_is_named(
    bed: CommandBed,
) -> None:
    bed.write("train.py", "")
    bed.write("data.yaml", "batch: 3\n")
    assert "is not read" not in bed.run_here("plan")[1]
    bed.write("cluster.yaml", "jobs:\n  ps: 1\n  worker: 2\nprogram: train.py\n")
    assert (
        "note: cluster.yaml here is not read, because of its name; to start it: "
        "psclust up -f cluster.yaml" in bed.run_here("plan")[1]
    )
    assert "is not read" not in bed.run_here("plan", "train.py")[1]
    assert "is not read" not in bed.run_here("plan", "-f", "cluster.yaml")[1]
    bed.write("psclust.yaml", "jobs: {worker: 2}\nprogram: train.py\n")
    assert "is not read" not in bed.run_here("plan")[1]
