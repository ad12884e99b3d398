"""Flags laid over a cluster file: which value wins, and that a mistake in a flag names the flag."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_files import mistakes, write

from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import Job
from psclust.spec.load import Override, load

PS = ("jobs", "ps", "count")
WORKERS = ("jobs", "worker", "count")


def loaded(folder: Path, text: str | None, *overrides: Override) -> ClusterFile:
    return load(None if text is None else write(folder, text), overrides, default_name="x")


def refused(folder: Path, text: str | None, *overrides: Override) -> list[str]:
    found = mistakes(None if text is None else write(folder, text), *overrides)
    return [problem.replace(f"{folder}/", "") for problem in found]


@pytest.mark.parametrize("text", ["jobs: {ps: 1, worker: 3}", "jobs: {ps: {count: 1}, worker: 3}"])
def test_a_count_replaces_that_of_the_file_however_it_is_written(text: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, text, Override("--ps", PS, 2)).jobs == {
        "ps": Job(count=2),
        "worker": Job(count=3),
    }


def test_a_count_keeps_what_else_the_file_says_of_the_job(tmp_path: Path) -> None:
    jobs = loaded(
        tmp_path, "jobs: {worker: {count: 1, gpus: 1}}", Override("--workers", WORKERS, 4)
    ).jobs
    assert jobs == {"worker": Job(count=4, gpus=1)}


@pytest.mark.parametrize("text", [None, "name: n"])
def test_a_count_leaves_the_other_default_jobs_in_place(text: str | None, tmp_path: Path) -> None:
    assert loaded(tmp_path, text, Override("--ps", PS, 3)).jobs == {
        "ps": Job(count=3),
        "worker": Job(count=2),
    }


def test_a_new_job_joins_those_of_the_file(tmp_path: Path) -> None:
    jobs = loaded(
        tmp_path, "jobs: {worker: 1}", Override("--job", ("jobs", "chief", "count"), 1)
    ).jobs
    assert jobs == {"worker": Job(count=1), "chief": Job(count=1)}


def test_single_values_win_over_the_file(tmp_path: Path) -> None:
    file = loaded(
        tmp_path,
        "program: a.py\nargs: [--x]\nupdate: async\nenv: {A: 1, B: 2}",
        Override("--sync", ("update",), "sync"),
        Override("PROGRAM", ("program",), "b:c"),
        Override("PROGRAM", ("args",), ("--y", "1")),
        Override("--env", ("env", "B"), "3"),
    )
    assert (file.update, file.program, file.args, file.env) == (
        "sync",
        "b:c",
        ["--y", "1"],
        {"A": "1", "B": "3"},
    )


def test_hosts_on_the_command_line_replace_a_hostfile_and_the_reverse(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("c slots=4\n")
    assert loaded(tmp_path, "hostfile: none.txt", Override("-H", ("hosts",), "a:4")).hosts == [
        Host("a", 4)
    ]
    hostfile = Override("--hostfile", ("hostfile",), str(tmp_path / "other.txt"))
    assert loaded(tmp_path, "hosts: a:4", hostfile).hosts == [Host("c", 4)]


def test_a_hostfile_flag_is_relative_to_the_working_folder_not_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "hosts-of-this-test.txt").write_text("c slots=4\n")
    found = refused(
        tmp_path, "name: x", Override("--hostfile", ("hostfile",), "hosts-of-this-test.txt")
    )
    assert found == ["--hostfile: hosts-of-this-test.txt: there is no such file; check the name."]


def test_the_same_flag_twice_means_the_last_one(tmp_path: Path) -> None:
    file = loaded(
        tmp_path, None, Override("--env", ("env", "A"), "1"), Override("--env", ("env", "A"), "2")
    )
    assert file.env == {"A": "2"}


def test_a_mistake_in_a_flag_names_the_flag_and_comes_first(tmp_path: Path) -> None:
    assert refused(
        tmp_path,
        "nmae: x\njobs: {ps: 1}",
        Override("--ps", PS, -1),
        Override("-H", ("hosts",), "a:0,b:2"),
        Override("--env", ("env", "A B"), "1"),
        Override("--replication", ("replication",), "ingraph"),
    ) == [
        "--ps: found -1; write a whole number from 0 to 4096.",
        (
            "-H: 'a:0': 0 slots leave no room for a task; "
            "give at least one slot or leave the host out."
        ),
        "--env: found the key 'A B'; write a variable's name without = or blanks.",
        (
            "--replication: found the text 'ingraph'; write in-graph, "
            "between-graph or coordinator (did you mean in-graph?)."
        ),
        "cluster.yaml:1: nmae: unknown key; did you mean name?",
    ]


def test_a_contradiction_between_a_flag_and_the_file_names_the_flag(tmp_path: Path) -> None:
    text = "hosts: a:2, b:2\njobs: {ps: 1, worker: 3}"
    assert refused(tmp_path, text, Override("--workers", WORKERS, 5)) == [
        (
            "--workers: 5 workers and 1 ps need 6 slots; the hosts offer 4 (a: 2, b: 2). "
            "Lower the count or raise slots."
        ),
    ]


def test_a_contradiction_with_a_default_names_the_key(tmp_path: Path) -> None:
    assert refused(tmp_path, None, Override("-H", ("hosts",), "a:1")) == [
        (
            "jobs.worker.count: 2 workers and 1 ps need 3 slots; the hosts offer 1 (a: 1). "
            "Lower the count or raise slots."
        ),
    ]


def test_flags_that_say_two_things_are_refused(tmp_path: Path) -> None:
    assert refused(
        tmp_path,
        None,
        Override("-H", ("hosts",), "a"),
        Override("--hostfile", ("hostfile",), "h"),
        Override("--sync", ("update",), "sync"),
        Override("--async", ("update",), "async"),
    ) == [
        "-H: contradicts --hostfile; give one of the two.",
        "--sync: contradicts --async; give one of the two.",
    ]


def test_a_flag_below_something_that_is_no_mapping_leaves_the_file_to_blame(tmp_path: Path) -> None:
    assert refused(tmp_path, "jobs: 3", Override("--ps", PS, 2)) == [
        "cluster.yaml:1: jobs: found 3; write a mapping such as {ps: 1, worker: 2}.",
    ]
