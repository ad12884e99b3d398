"""Clusters from Python: what a program sees of them, and that nothing of them outlives it, however
it ends."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

import psclust
from beds.command import CommandBed
from psclust.api.cluster_options import arguments
from psclust.errors import PsclustError, StartError, UsageError
from psclust.testing.wait import wait_until


@pytest.fixture
def there(bed: CommandBed, monkeypatch: pytest.MonkeyPatch) -> CommandBed:
    """This process uses the bed's folders, and what it starts has the bed's mark."""
    monkeypatch.chdir(bed.folder)
    for name, value in bed.environment().items():
        monkeypatch.setenv(name, value)
    return bed


@pytest.fixture
def script(bed: CommandBed) -> CommandBed:
    """Runs Python in place of psclust."""
    return replace(bed, command=(sys.executable,))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, []),
        ({"ps": 2, "workers": 4}, ["--ps=2", "--workers=4"]),
        (
            {"file": "a b.yaml", "no_preload": True, "name": None},
            ["--file=a b.yaml", "--no-preload"],
        ),
        ({"sync": True}, ["--sync"]),
        ({"sync": False, "no_preload": False}, ["--async"]),
        (
            {"jobs": {"chief": 1, "evaluator": 1}, "env": {"A": "b=c"}},
            ["--job=chief=1", "--job=evaluator=1", "--env=A=b=c"],
        ),
    ],
)
def test_options_are_those_of_up(options: dict[str, object], words: list[str]) -> None:
    assert arguments(options) == words


@pytest.mark.process
def test_a_program_starts_servers_and_has_their_addresses_until_the_block_ends(
    there: CommandBed,
) -> None:
    with psclust.LocalCluster(ps=2, workers=1) as cluster:
        tasks = {task.task: task for task in cluster.run.status.tasks}
        assert {job: len(addresses) for job, addresses in cluster.cluster_spec.items()} == {
            "ps": 2,
            "worker": 1,
        }
        assert cluster.target == f"grpc://{tasks['worker:0'].address}"
        assert cluster.tf_config("ps", 1).endswith('"task":{"type":"ps","index":1}}')
        assert all(task.served for task in tasks.values())
        assert cluster.model_dir.parent == cluster.run.folder
        assert there.processes()
    assert not there.processes()
    assert (cluster.run.status.ended, cluster.run.status.exit_code) == (True, 143)


@pytest.mark.process
def test_a_run_has_its_tasks_exit_codes_and_logs(there: CommandBed) -> None:
    there.write(
        "cluster.yaml",
        "jobs: {ps: 0, worker: 2}\nprogram: [sh, -c, 'echo task {task_index}; "
        "exit {task_index}']\n",
    )
    run = psclust.Cluster.from_file("cluster.yaml", name="codes").up()
    last = run.wait(60)
    assert {task.task: task.exit_code for task in last.tasks}["worker:1"] == 1
    assert (last.name, last.ok, run.logs("worker:1")) == ("codes", False, "task 1\n")
    with pytest.raises(PsclustError, match="codes: worker:1 exited with code 1"):
        run.wait(check=True)
    with pytest.raises(
        UsageError, match="chief:0: there is no such task; there are worker:0, worker:1"
    ):
        run.logs("chief:0")


@pytest.mark.process
def test_what_is_wrong_is_the_commands_own_sentence(there: CommandBed) -> None:
    with pytest.raises(UsageError, match=r"^nosuch.py: No such file"):
        psclust.Cluster().up("nosuch.py")
    with pytest.raises(UsageError, match=r"^No such option '--bogus'"):
        psclust.Cluster(bogus=1).up()
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = psclust.LocalCluster().target
    with psclust.Cluster(ps=1, workers=0, name="taken").up() as run:
        with pytest.raises(StartError, match="taken is up already; end it first"):
            psclust.Cluster(ps=1, workers=0, name="taken").up()
        with pytest.raises(UsageError, match="taken has no worker to run a session"):
            _ = run.target
        with pytest.raises(TimeoutError, match="not over after"):
            run.wait(0.1)


@pytest.mark.process
def test_now_ends_a_program_that_ignores_term_and_says_who_asked(there: CommandBed) -> None:
    there.write(
        "deaf.py",
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\ntime.sleep(1000)\n",
    )
    there.write(
        "cluster.yaml",
        "jobs: {ps: 0, worker: 1}\nprogram: deaf.py\npreload: false\nrole_by: none\n",
    )
    run = psclust.Cluster.from_file("cluster.yaml").up()
    wait_until(lambda: run.logs("worker:0") == "up\n", what="the program")
    last = run.down(now=True)
    assert last is not None
    assert (last.text, last.tasks[0].exit_code) == ("ended by the program that held it", 137)
    assert not there.processes()


_HOLDS = """
import os, signal, sys, time
import psclust

cluster = psclust.LocalCluster(ps=1, workers=1).start()
print("up", flush=True)
{then}
"""


def servers(bed: CommandBed) -> list[psutil.Process]:
    """Processes of the bed, but for the script and its own children."""
    found = []
    for process in bed.processes():
        with suppress(psutil.Error):
            found += [process] if "holds.py" not in process.cmdline() else []
    return found


@pytest.mark.process
@pytest.mark.parametrize(
    "then",
    [
        "",
        "raise ValueError('own')",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
        pytest.param("os._exit(1)", marks=pytest.mark.long),
        # A child has the pipe that holds the run, too.
        "os.fork() or time.sleep(20); os.kill(os.getpid(), signal.SIGKILL)",
    ],
    ids=["end", "error", "kill", "ctrl-c", "exit", "fork"],
)
def test_nothing_outlives_the_program_however_it_ends(script: CommandBed, then: str) -> None:
    script.write("holds.py", _HOLDS.format(then=then))
    running = script.start("holds.py")
    wait_until(
        lambda: "up" in running.output or running.process.poll() is not None, what="the cluster"
    )
    assert "up" in running.output
    running.wait()
    if then in ("", "raise ValueError('own')"):
        assert not servers(script)
    wait_until(lambda: not servers(script), what="the end of the servers")
    for process in script.processes():
        process.send_signal(signal.SIGKILL)


@pytest.mark.process
def test_the_fixture_starts_a_cluster_for_a_test(script: CommandBed) -> None:
    script.write(
        "test_own.py",
        "def test_own(psclust_cluster):\n    assert len(psclust_cluster(ps=2, "
        "workers=1).cluster_spec['ps']) == 2\n",
    )
    # See pyproject.toml for the plugin.
    assert "1 passed" in script.done("-m", "pytest", "-q", "-p", "no:kmock", "test_own.py")
