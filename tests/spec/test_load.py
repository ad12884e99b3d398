"""Loading a cluster file and the files beside it: what they become, and what cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from written_files import mistakes, write

from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile, Deadlines
from psclust.spec.job_keys import Job, Restart
from psclust.spec.load import load


def test_a_missing_file_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "jobs: {ps: 1}")
    assert mistakes(tmp_path / "clutser.yaml") == [
        f"{tmp_path}/clutser.yaml: there is no such file; did you mean {tmp_path}/cluster.yaml?",
    ]
    assert mistakes(tmp_path / "other") == [
        (
            f"{tmp_path}/other: there is no such file; check the name, "
            "or let `psclust init` write a cluster file to start from."
        ),
    ]
    assert "there is no such file" in mistakes(tmp_path / "no" / "folder.yaml")[0]


def test_a_folder_is_no_cluster_file(tmp_path: Path) -> None:
    assert mistakes(tmp_path) == [f"{tmp_path}: this is a folder; name a file."]
    path = write(tmp_path, "jobs: {ps: 1}")
    assert mistakes(tmp_path) == [
        f"{tmp_path}: this is a folder; name a file in it, such as {path}."
    ]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = write(tmp_path, "jobs: {ps: 1}")
    assert mistakes(path / "below.yaml") == [
        f"{path}/below.yaml: cannot be read (not a directory); check the path and its permissions."
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "jobs: {ps: 1}")
    path.chmod(0)
    assert mistakes(path) == [
        f"{path}: cannot be read (permission denied); check the path and its permissions."
    ]


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: x\nargs: [größe]\n".encode("latin-1"))
    assert mistakes(path) == [f"{path}:2: this is not UTF-8 text; save the file as UTF-8."]


def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: win\r\njobs:\r\n  ps: 2\r\n")
    assert load(path, default_name="x") == ClusterFile(name="win", jobs={"ps": Job(count=2)})


def test_without_a_file_the_defaults_hold() -> None:
    assert load(None, default_name="here") == ClusterFile(
        name="here", jobs={"ps": Job(), "worker": Job(count=2)}
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("digits", "digits"),
        ("my project (2)", "my-project-2"),
        ("_x.y_", "x.y"),
        ("größe", "gr-e"),
        ("...", "cluster"),
        ("a" * 99, "a" * 63),
    ],
)
def test_a_default_name_is_made_to_fit(given: str, name: str) -> None:
    assert load(None, default_name=given).name == name


def test_a_full_file_becomes_its_model(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
name: full
hosts: [a:4, "node[1-2]:2", {name: c, slots: 4, user: me, port: 2222}]
jobs:
  ps: 2
  worker: {count: 3, hosts: [a], gpus: 1, task_args: {0: [--first]},
    task_env: {2: {LEVEL: 010}}, ok_exit_codes: [0, 1]}
  chief: {addresses: ["a:2222"], restart: {when: never}}
program: train.py
args: [--lr, 0.10, --verbose, yes]
env: {THREADS: 1, VERSION: 1.10, ON: true}
recovery_wait: false
deadlines: {run: 2h, stop: 500ms, start: "90"}
ends_with: [worker]
on_ps_failure: fail
on_worker_failure: restart-worker
""",
    )
    assert load(path, default_name="x") == ClusterFile(
        name="full",
        hosts=[Host("a", 4), Host("node1", 2), Host("node2", 2), Host("c", 4, "me", 2222)],
        jobs={
            "ps": Job(count=2),
            "worker": Job(
                count=3,
                hosts=["a"],
                gpus=1,
                task_args={0: ["--first"]},
                task_env={2: {"LEVEL": "010"}},
                ok_exit_codes=[0, 1],
            ),
            "chief": Job(count=1, addresses=["a:2222"], restart=Restart(when="never")),
        },
        program="train.py",
        args=["--lr", "0.10", "--verbose", "yes"],
        env={"THREADS": "1", "VERSION": "1.10", "ON": "true"},
        recovery_wait=False,
        deadlines=Deadlines(run=7200.0, stop=0.5, start=90.0),
        ends_with=["worker"],
        on_ps_failure="fail",
    )


def test_a_hostfile_stands_beside_the_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("a slots=2\nb slots=2\n")
    path = write(tmp_path, "hostfile: hosts.txt\njobs: {ps: 1, worker: 3}")
    assert load(path, default_name="x").hosts == [Host("a", 2), Host("b", 2)]


def test_a_missing_hostfile_is_named_with_the_line_that_wants_it(tmp_path: Path) -> None:
    path = write(tmp_path, "name: x\nhostfile: hosts.txt\n")
    assert mistakes(path) == [
        f"{path}:2: hostfile: {tmp_path}/hosts.txt: there is no such file; check the name.",
    ]


def test_mistakes_in_the_hostfile_come_with_those_of_the_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("a slots=2\nb:x\n")
    path = write(tmp_path, "hostfile: hosts.txt\njobs: {ps: x, worker: {hosts: [nowhere]}}")
    found = mistakes(path)
    assert [line.partition(" found ")[0].partition(" 'b:x'")[0] for line in found] == [
        f"{path}:2: jobs.ps:",
        f"{tmp_path}/hosts.txt:2:",
    ]


def test_a_folder_to_ship_and_a_file_of_variables_stand_beside_the_cluster_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / ".env").write_text("A=1\n")
    path = write(
        tmp_path,
        "ship: code\nenv_file: .env\npass_env: [HF_TOKEN, 'WANDB_*']\n"
        "ssh: {parallel: 2, deadline: 2m}",
    )
    file = load(path, default_name="x")
    assert (file.ship, file.env_file) == (str(tmp_path / "code"), str(tmp_path / ".env"))
    assert file.pass_env == ["HF_TOKEN", "WANDB_*"]
    assert (file.ssh.parallel, file.ssh.deadline) == (2, 120.0)


def test_mistakes_in_the_file_of_variables_come_with_their_lines_and_without_values(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text("A=1\nsecret\nB C=secret\n1D=secret\n")
    path = write(tmp_path, "env_file: .env\njobs: {ps: x}")
    found = mistakes(path)
    assert [line.partition(": ")[0] for line in found] == [
        f"{path}:2",
        *(f"{tmp_path}/.env:{line}" for line in (2, 3, 4)),
    ]
    assert "secret" not in "".join(found)
