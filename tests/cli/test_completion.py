"""Completion, by the shells themselves: what stands on the line after TAB, or what the shell would
offer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from beds.command import CommandBed
from beds.terminal import Terminal
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.rundir.status_file import write_status
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


def made(bed: CommandBed, name: str, tasks: list[str]) -> RunFolder:
    """A run that has ended."""
    cluster = ClusterFolder(bed.state / name)
    lock = cluster.lock()
    assert lock is not None
    folder = cluster.new_run()
    os.close(lock)
    entries = tuple(
        TaskStatus(task, "server", "done", "localhost", None, None, 1, 0, 0, 0.0, None)
        for task in tasks
    )
    status = RunStatus(
        name,
        folder.id,
        str(folder.path),
        "ended",
        1,
        0.0,
        entries,
        ok=True,
        exit_code=0,
        text="done",
    )
    write_status(folder, status)
    return folder


@pytest.fixture
def shell_bed(bed: CommandBed) -> CommandBed:
    """A folder with runs, and `psclust` on the PATH."""
    made(bed, "digits", ["ps:0", "worker:0", "worker:1"])
    made(bed, "words", ["ps:0"])
    command = bed.write("psclust", f'#!/bin/sh\nexec {sys.executable} -m psclust "$@"\n')
    command.chmod(0o755)
    bed.environ |= {
        "PATH": f"{bed.folder}:{os.environ['PATH']}",
        "HOME": str(bed.folder),
        "TERM": "dumb",
    }
    return bed


def in_bash(bed: CommandBed, line: str) -> list[str]:
    """The lines that bash would offer: what it replaces starts after the last blank or colon."""
    script = (
        f'eval "$(psclust completion bash)"; COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; '
        f"_psclust_completion psclust"
    )
    said = shell(bed, ["bash", "--norc", "-c", f'{script}; printf "%s\\n" "${{COMPREPLY[@]}}"'])
    kept = line[: max(line.rfind(" "), line.rfind(":")) + 1].rpartition(" ")[2]
    return [kept + word for word in said.splitlines() if word]


def in_fish(bed: CommandBed, line: str) -> list[str]:
    said = shell(
        bed,
        ["fish", "--no-config", "-c", f"psclust completion fish | source; complete -C {line!r}"],
    )
    return [word.partition("\t")[0] for word in said.splitlines()]


def shell(bed: CommandBed, command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    done = subprocess.run(
        command,
        cwd=bed.folder,
        env=bed.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("ask", [in_bash, in_fish])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("psclust comp", ["completion"]),
        ("psclust up --place", ["--placement"]),
        ("psclust up --placement ", ["balanced", "round_robin"]),
        ("psclust ps ", ["digits", "words"]),
        ("psclust attach ", []),
        ("psclust logs digits wor", ["worker", "worker:0", "worker:1"]),
        ("psclust logs digits worker:", ["worker:0", "worker:1"]),
        ("psclust logs digits worker:0 work", ["worker", "worker:1"]),
        ("psclust logs words wor", []),
    ],
)
def test_a_shell_offers_verbs_options_runs_and_tasks(
    shell_bed: CommandBed, ask, line: str, offered: list[str]
) -> None:  # type: ignore[no-untyped-def]
    assert sorted(ask(shell_bed, line)) == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes_on_its_line(shell_bed: CommandBed) -> None:
    bed = shell_bed
    terminal = Terminal(
        ["zsh", "-f", "-i"], cwd=bed.folder, env=bed.environment({"TERM": "xterm", "PS1": "> "})
    )
    try:
        terminal.type(
            'autoload -U compinit; compinit -u; eval "$(psclust completion zsh)"; echo rea""dy\n'
        )
        wait_until(lambda: "ready" in terminal.written, what="zsh")
        for typed, line in (
            ("psclust comp\t", "psclust completion"),
            ("\x15psclust logs words ps:\t", "psclust logs words ps:0"),
        ):
            terminal.type(typed)
            wait_until(lambda line=line: line in terminal.written, what=line)  # type: ignore[misc]
        terminal.type("\x15exit\n")
        terminal.wait()
    finally:
        terminal.process.kill()


def test_every_option_of_up_has_a_variable(bed: CommandBed) -> None:
    values = {"PS": "3", "JOB": "chief=1 evaluator=1", "SYNC": "true", "NAME": "named"}
    said = bed.done(
        "plan",
        "psclust.examples.digits:program",
        env={f"PSCLUST_UP_{name}": value for name, value in values.items()},
    )
    assert all(f"{task}  on localhost" in said for task in ("ps:2", "chief:0", "evaluator:0")), said
    assert said.endswith("named is not up; `up` would start 7 tasks.\n")
    assert "PSCLUST_UPDATE=sync" in said


@pytest.mark.parametrize(
    ("env", "flags", "source"),
    [
        ({"PSCLUST_UP_PS": "-3"}, [], "PSCLUST_UP_PS"),
        ({"PSCLUST_UP_PS": "2"}, ["--ps", "-3"], "--ps"),
    ],
    ids=["variable", "flag"],
)
def test_a_mistake_is_named_by_its_place(
    bed: CommandBed, env: dict[str, str], flags: list[str], source: str
) -> None:
    said = bed.fails(2, "up", *flags, "--", "true", env=env)
    assert said == f"psclust: {source}: found -3; write a whole number from 0 to 4096.\n"
