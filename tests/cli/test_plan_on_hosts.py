"""`psclust plan` for other hosts: what would be run there, without asking them."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from beds.command import CommandBed

pytestmark = pytest.mark.process

HOSTS = ("-H", "nowhere1,nowhere2", "--ps", "1", "--workers", "1")


def test_the_plan_names_the_command_that_each_host_would_be_given(bed: CommandBed) -> None:
    said = bed.done_here("plan", "--json", *HOSTS)
    plan = json.loads(said)
    assert set(plan["remote"]) == {"nowhere1", "nowhere2"}
    (command,) = set(plan["remote"].values())
    assert shlex.split(command)[-2:] == [sys.executable, "python3"]
    assert {task["host"] for task in plan["tasks"]} == set(plan["remote"])
    assert f"first, on nowhere1, nowhere2, by ssh:\n  {command}\n" in bed.done_here("plan", *HOSTS)


def test_the_interpreter_of_the_cluster_file_is_the_only_one_looked_for(bed: CommandBed) -> None:
    plan = json.loads(bed.run_here("plan", "--json", "--python", "~/venv/bin/python", *HOSTS)[1])
    assert {shlex.split(command)[-1] for command in plan["remote"].values()} == {
        "~/venv/bin/python"
    }
    assert shlex.split(plan["remote"]["nowhere1"])[-2] != sys.executable


def test_on_this_machine_nothing_is_run_elsewhere(bed: CommandBed) -> None:
    assert json.loads(bed.run_here("plan", "--json", "--ps", "1")[1])["remote"] == {}
