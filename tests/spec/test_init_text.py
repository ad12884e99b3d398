"""The file `psclust init` writes: it loads as it is, and so does every line that invites
uncommenting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.job_keys import Job
from psclust.spec.load import load
from psclust.spec.starter_file import Starter, render_init


def loaded(folder: Path, text: str) -> ClusterFile:
    path = folder / "psclust.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, default_name="other")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (None, None),
        ("train.py", "train.py"),
        ("psclust.examples.digits:program", "psclust.examples.digits:program"),
        ("-m package.train", "-m package.train"),
        ("./run --fast '{job_name}'", ["./run", "--fast", "{job_name}"]),
        ("it's.py", "it's.py"),
        ("my script.py", "my script.py"),
        ("python -m a.b --x 1", ["python", "-m", "a.b", "--x", "1"]),
        ("", None),
    ],
)
def test_the_starter_file_loads(program: str | None, expected: object, tmp_path: Path) -> None:
    file = loaded(tmp_path, render_init(Starter("mnist", program)))
    assert (file.name, file.jobs, file.program) == (
        "mnist",
        {"ps": Job(), "worker": Job(count=2)},
        expected,
    )


def test_it_fits_on_a_screen() -> None:
    lines = render_init(Starter("mnist", "train.py")).splitlines()
    assert len(lines) <= 43
    assert max(map(len, lines)) <= 115


def test_every_key_it_comments_out_loads_once_uncommented(tmp_path: Path) -> None:
    commented = rf"^# (?=({'|'.join(ClusterText.model_fields)}):|  )"
    file = loaded(
        tmp_path, re.sub(commented, "", render_init(Starter("mnist", "a.b:c")), flags=re.MULTILINE)
    )
    given = (
        "name jobs program args role_by replication update max_staleness placement hosts ports "
        "ship env pass_env restart deadlines kubernetes"
    )
    assert file.model_fields_set == set(given.split())


def test_what_is_known_is_filled_in(tmp_path: Path) -> None:
    text = render_init(
        Starter("mnist", "train.py", ps=3, workers=5, hosts="a:4,b:4", role_by="flags")
    )
    file = loaded(tmp_path, text)
    assert (file.jobs["ps"].count, file.jobs["worker"].count, file.role_by, file.replication) == (
        3,
        5,
        "flags",
        None,
    )
    assert [(host.name, host.slots) for host in file.hosts] == [("a", 4), ("b", 4)]
    file = loaded(tmp_path, render_init(Starter("mnist", "train.py", replication="coordinator")))
    assert (file.role_by, file.replication) == ("auto", "coordinator")
