"""What `psclust up` starts before it has planned anything: it is used, or it leaves no trace."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from psclust.launch.early_start import early_start, load_of
from psclust.testing.command import CommandBed, Running
from psclust.testing.processes import words_of
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.tensorflow

PROGRAM = "psclust.examples.digits:program"


def fork_servers(bed: CommandBed, load: str = "psclust") -> list[psutil.Process]:
    """Those that load so much; their tasks have other sessions."""
    found = [
        process
        for process in bed.processes()
        if load in words_of(process) and "--preload" in words_of(process)
    ]
    return [
        process
        for process in found
        if process.pid == os.getsid(process.pid) and process.name() != "worker:0"
    ]


@dataclass
class Waiting:
    """A command that has started a fork server, and waits until `begin` for another run of its name
    to end."""

    up: Running
    early: psutil.Process
    lock: int | None

    def begin(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None


@contextmanager
def waiting_command(bed: CommandBed, *arguments: str, load: str) -> Iterator[Waiting]:
    lock = bed.cluster().lock()
    assert lock is not None
    up = bed.start("up", *arguments)
    (early,) = wait_until(lambda: fork_servers(bed, load), what="a fork server") or []
    waiting = Waiting(up, early, lock)
    try:
        yield waiting
    finally:
        waiting.begin()
        if up.process.poll() is None:
            up.process.kill()
            up.wait()


@pytest.fixture
def waiting(bed: CommandBed) -> Iterator[Waiting]:
    with waiting_command(
        bed, "--ps", "1", "--workers", "1", PROGRAM, "--max-steps", "200", load="psclust"
    ) as waiting:
        yield waiting


def test_tasks_come_from_the_fork_server_that_began_before_the_run(
    waiting: Waiting, bed: CommandBed
) -> None:
    assert bed.cluster().current() is None
    supervisor = psutil.Process(waiting.early.ppid())
    assert psutil.Process(supervisor.ppid()).ppid() == waiting.up.process.pid
    waiting.begin()
    bed.wait_for("worker:0", "running")
    assert fork_servers(bed) == [waiting.early]
    assert waiting.up.wait() == 0, waiting.up.output
    assert not bed.processes()


def test_so_do_bare_servers(bed: CommandBed) -> None:
    with waiting_command(bed, "--ps", "0", "--workers", "1", load="library") as waiting:
        assert bed.cluster().current() is None
        waiting.begin()
        bed.wait_for("worker:0", "running")
        assert fork_servers(bed, "library") == [waiting.early]
        assert bed.run("down")[0] == 0
    assert not bed.processes()


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("jobs: {ps: 1, worker: {count: 2, device_count: 2}}", "library"),
        (f"jobs: {{worker: 1}}\nprogram: {PROGRAM}\nargs: [--max-steps, 9]", "psclust"),
        ("program: train.py", None),
        (f"program: [{PROGRAM}]", None),
        ("program: [[]]", None),
        (f"hosts: a,b\nprogram: {PROGRAM}", None),
        (f"python: /opt/python\nprogram: {PROGRAM}", None),
        ("jobs: {worker: {run: [python, train.py]}}", None),
        ("jobs: [worker", None),
        ("", None),
    ],
)
def test_a_cluster_file_says_what_its_tasks_are_forked_from(
    tmp_path: Path, text: str, load: str | None
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert load_of((), str(file)) == load


def test_a_program_after_the_options_counts_before_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_of((), None) == "library"
    Path("psclust.yaml").write_text("hosts: a,b\nprogram: train.py\n")
    assert load_of((), None) is None
    assert load_of((PROGRAM,), None) == "psclust"
    Path("cluster.psclust.yaml").write_text("name: two\n")
    assert load_of((), None) is None


def test_nothing_starts_early_in_a_job_of_slurm_whose_nodes_are_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = {
        **dict.fromkeys(
            ("hosts", "hostfile", "python", "no_preload", "module", "kubernetes", "env", "path")
        ),
        "program": (PROGRAM,),
    }
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with early_start(flags) as waiting:
        assert waiting is None


def test_a_file_that_can_be_read_once_is_left_to_its_reader(bed: CommandBed) -> None:
    pipe = bed.folder / "pipe"
    os.mkfifo(pipe)
    assert load_of((), str(pipe)) is None
    up = bed.start("up", "-f", str(pipe), "--name", bed.name)
    pipe.write_text("jobs: {ps: 0, worker: 1}\n")
    bed.wait_for("worker:0", "running")
    assert bed.run("down")[0] == 0
    up.wait()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--job", "nonsense", PROGRAM), id="a wrong request"),
        pytest.param(("--top", PROGRAM), id="one that is refused later"),
        pytest.param(("psclust.examples.digits:nothing",), id="a program that is missing"),
        pytest.param(("--job", "nonsense"), id="a wrong one for bare servers"),
    ],
)
def test_a_refused_command_leaves_no_process(bed: CommandBed, arguments: tuple[str, ...]) -> None:
    code, said = bed.run("up", *arguments)
    assert not bed.processes()
    assert code == 2, said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_command_that_ends_while_it_waits_takes_everything_with_it(
    waiting: Waiting, bed: CommandBed, name: str
) -> None:
    waiting.up.process.send_signal(signal.Signals[name])
    waiting.up.wait()
    wait_until(lambda: not bed.processes(), what="the end of everything")
    assert bed.cluster().current() is None


def test_a_fork_server_that_dies_early_is_replaced(waiting: Waiting) -> None:
    waiting.early.kill()
    waiting.begin()
    assert waiting.up.wait() == 0, waiting.up.output
    assert "trained to step 200" in waiting.up.output


def test_a_supervisor_that_dies_before_its_run_is_an_error(
    waiting: Waiting, bed: CommandBed
) -> None:
    psutil.Process(waiting.early.ppid()).kill()
    waiting.begin()
    assert waiting.up.wait() == 3, waiting.up.output
    assert "no process could be started" in waiting.up.output
    assert not bed.processes()


def test_a_second_command_for_a_live_run_leaves_only_that(bed: CommandBed) -> None:
    # It must not have ended before the second command looks.
    request = ("up", "-d", "--ps", "1", "--workers", "1", PROGRAM, "--set", "epochs=100000")
    assert bed.run(*request)[0] == 0
    before = bed.processes()
    code, said = bed.run(*request)
    assert code == 0, said
    assert "is up already; nothing differs" in said
    assert set(bed.processes()) <= set(before)
    assert bed.run("down")[0] == 0
