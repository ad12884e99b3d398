"""`psclust --version`, and the launcher without TensorFlow."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys

import pytest

import psclust
from beds.command import CommandBed
from beds.environment import TENSORFLOW, leave_out

pytestmark = pytest.mark.process


def test_the_version_is_that_of_psclust_python_and_the_tensorflow_for_tasks(
    bed: CommandBed,
) -> None:
    code, said = bed.run("--version")
    assert (code, said.splitlines()) == (
        0,
        [
            f"psclust {psclust.__version__}",
            f"Python {platform.python_version()} ({sys.executable})",
            f"TensorFlow {importlib.metadata.version('tensorflow')}, for tasks",
        ],
    )


def test_the_launcher_plans_without_tensorflow_and_says_that_tasks_need_one(
    bed: CommandBed,
) -> None:
    leave_out(bed, *TENSORFLOW)
    code, said = bed.run("--version")
    assert (code, said.splitlines()[2:]) == (
        0,
        ["no TensorFlow beside it: name a Python that has one for tasks (--python, `python:`)"],
    )
    code, said = bed.run("plan", "--json", "--ps", "1", "--workers", "1")
    assert code == 0, said
    assert [task["task"]["job"] for task in json.loads(said)["tasks"]] == ["ps", "worker"]


def test_tasks_run_by_a_python_with_tensorflow_where_the_launcher_has_none(
    bed: CommandBed,
) -> None:
    leave_out(bed, *TENSORFLOW)
    code, said = bed.run("up", "-d", "--python", sys.executable, "--ps", "1")
    assert code == 0, said
    assert bed.run("down")[0] == 0
