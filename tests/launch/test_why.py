"""`psclust why` names what each task does and waits for, in staged waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from on_hosts import isolated
from prometheus_client.parser import text_string_to_metric_families
from staged_waits import ABSENT_PS, IMPORTS, LATE_PS, PROGRAM, SLEEPER

from beds.command import CommandBed, typed
from beds.free_ports import free_ports
from beds.hosts import HostBed
from psclust.rundir.events_file import read_events
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

SYNC = ("--ps", "2", "--workers", "2", "--sync", "--env", "TASK={task_index}")
SECONDS = 120.0


def why(bed: CommandBed) -> dict[str, dict[str, Any]]:
    code, said = bed.run("why", "--json")
    if code != 0:
        pytest.fail(f"{said}\n{bed.run_folder().supervisor_log.read_text()}")
    return {each["task"]: each for each in json.loads(said)}


def until_why(bed: CommandBed, **expected: tuple[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Wait until `why` says so: what each of these tasks (worker_0) does, by its beginning, and
    which tasks it waits for."""
    last: dict[str, dict[str, Any]] = {}

    def fits() -> bool:
        last.clear()
        last.update(why(bed))
        names = {name: last[name.replace("_", ":")] for name in expected}
        return all(
            names[name]["does"].startswith(does) and names[name]["waits_for"] == waits
            for name, (does, waits) in expected.items()
        )

    try:
        wait_until(fits, SECONDS, what=f"{expected}")
    except TimeoutError:
        pytest.fail(f"expected {expected}, found {json.dumps(last, indent=1)}")
    return last


def barrier_waits(port: int) -> dict[str, float]:
    """Task -> its seconds in the barrier."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        families = text_string_to_metric_families(reply.read().decode())
    (found,) = [family for family in families if family.name == "psclust_task_barrier_wait_seconds"]
    return {sample.labels["task"]: sample.value for sample in found.samples}


def train(bed: CommandBed, *options: str) -> None:
    bed.write("staged.py", PROGRAM)
    bed.done("up", "-d", *SYNC, *options, "staged:program")


def end(bed: CommandBed) -> None:
    bed.done("down")


@pytest.mark.long
def test_a_held_barrier_a_slow_input_and_a_stopped_ps_are_named(bed: CommandBed) -> None:
    held = bed.write("step-1", "")
    port = free_ports(1)
    train(bed, "--metrics", str(port))
    until_why(
        bed,
        worker_0=("in the barrier for step", ["worker:1"]),
        worker_1=("in its own code: held (staged.py:", []),
    )
    held.unlink()
    until_why(
        bed, worker_0=("training", []), worker_1=("training", []), ps_0=("serves at 127.0.0.1:", [])
    )
    computing = bed.write("compute-1", "")
    expected = {
        "worker_0": ("in the barrier for step", ["worker:1"]),
        "worker_1": ("computing its gradient for step", []),
    }
    until_why(bed, **expected)
    computing.unlink()
    until_why(bed, worker_0=("training", []))
    slow = bed.write("input-0", "")
    found = until_why(
        bed,
        worker_0=("reading input: held (staged.py:", []),
        worker_1=("in the barrier for step", ["worker:0"]),
    )
    assert found["worker:1"]["for_s"] >= 2
    assert found["worker:0"]["stack"][0].startswith("held (staged.py:")
    slow.unlink()
    until_why(bed, worker_0=("training", []))
    bed.signal("ps:1", signal.SIGSTOP)
    until_why(
        bed,
        ps_1=("frozen by a signal", []),
        worker_0=("in step", ["ps:1"]),
        worker_1=("in step", ["ps:1"]),
    )
    said = bed.run("why")[1]
    assert "held up by ps:1: frozen by a signal or a debugger (SIGSTOP)" in said
    assert "worker:1, innermost first:" in said
    bed.signal("ps:1", signal.SIGCONT)
    # Both were late once.
    waited = wait_until(lambda: barrier_waits(port), SECONDS, what="the time in the barrier")
    assert {task: seconds > 1.0 for task, seconds in waited.items()} == {
        "worker:0": True,
        "worker:1": True,
    }
    end(bed)


@pytest.mark.long
@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize(
    "form", [["UNHELD=1"], ["MUCH=400000"], []], ids=["the chief updates", "streamed", "hooks"]
)
def test_a_slow_gradient_is_told_from_those_that_wait_for_it(
    bed: CommandBed, form: list[str], slow: int
) -> None:
    train(bed, *(f"--env={each}" for each in form))
    until_why(bed, worker_0=("training", []), worker_1=("training", []))
    held = bed.write(f"compute-{slow}", "")
    waits = ("in the barrier for step", [f"worker:{slow}"])
    until_why(
        bed,
        **{f"worker_{slow}": ("computing its gradient for step", []), f"worker_{1 - slow}": waits},
    )
    held.unlink()
    until_why(bed, worker_0=("training", []), worker_1=("training", []))
    end(bed)


def test_a_run_without_steps_is_explained_and_then_ended(bed: CommandBed) -> None:
    bed.write("staged.py", PROGRAM)
    bed.write(
        "psclust.yaml", json.dumps({"program": "staged:program", "deadlines": {"progress": "5s"}})
    )
    up = bed.start("up", *SYNC)
    bed.signal("ps:1", signal.SIGSTOP)
    assert up.wait() == 1, up.output
    assert "psclust: ps:1      frozen by a signal or a debugger (SIGSTOP)" in up.output
    assert "no step was made for 5 s (deadlines.progress)" in up.output
    kinds = [each["kind"] for each in read_events(bed.run_folder().events)]
    assert kinds.index("stalled") < kinds.index("stopping") < kinds.index("signal")


def test_a_script_that_sleeps_is_named_with_the_line(bed: CommandBed) -> None:
    bed.write("train.py", SLEEPER)
    bed.done("up", "-d", "--ps", "0", "--workers", "1", "--no-preload", "train.py")
    found = until_why(bed, worker_0=("in its own code: nap (train.py:4)", []))
    assert found["worker:0"]["stack"][:2] == ["nap (train.py:4)", "<module> (train.py:5)"]
    end(bed)


@pytest.mark.long
def test_a_worker_that_never_starts_is_named(bed: CommandBed) -> None:
    hook = bed.folder / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text("import time\ntime.sleep(1000)\n")
    bed.write("staged.py", PROGRAM)
    jobs = {"ps": 1, "worker": {"count": 2, "task_env": {"1": {"PYTHONPATH": str(hook)}}}}
    bed.write(
        "psclust.yaml", json.dumps({"program": "staged:program", "jobs": jobs, "update": "sync"})
    )
    up = bed.start("up")
    bed.wait_for("worker:0", "running")
    until_why(
        bed,
        worker_0=("in the barrier for step", ["worker:1"]),
        worker_1=("in its own code: <module> (hook/sitecustomize.py:2)", []),
    )
    end(bed)
    up.wait()


@pytest.mark.long
def test_a_ps_that_does_not_listen_yet_is_named(bed: CommandBed) -> None:
    bed.write("late", "")
    bed.write("train.py", LATE_PS)
    flags = "--job_name={job_name} --ps_hosts={ps_hosts}"
    up = bed.start(*typed(f"up --ps 1 --workers 1 --no-preload train.py {flags}"))
    bed.wait_for("ps:0", "running")
    until_why(bed, ps_0=("not yet listening at 127.0.0.1:", []))
    assert "in its own code: prepare (train.py:" in why(bed)["ps:0"]["does"]
    end(bed)
    up.wait()


@pytest.mark.long
def test_loading_tensorflow_is_named(bed: CommandBed) -> None:
    bed.write("train.py", IMPORTS)
    up = bed.start("up", "--ps", "0", "--workers", "1", "--no-preload", "train.py")
    bed.wait_for("worker:0", "running")
    until_why(bed, worker_0=("loading TensorFlow", []))
    until_why(bed, worker_0=("in its own code: <module> (train.py:3)", []))
    end(bed)
    up.wait()


@pytest.mark.long
def test_a_session_for_a_ps_that_is_not_there_is_named(bed: CommandBed) -> None:
    first = free_ports(3)
    bed.write("train.py", ABSENT_PS % (first, first + 1, first + 2))
    bed.done(
        "up", "-d", "--ps", "0", "--workers", "1", "--env", "TF_CPP_MIN_LOG_LEVEL=0", "train.py"
    )
    until_why(bed, worker_0=("in CreateSession", ["ps:0", "ps:1"]))
    end(bed)


@pytest.fixture
def slow_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that can be frozen: what writes to it then waits."""
    image, folder = tmp_path / "disk", tmp_path / "mounted"
    folder.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 64 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    if subprocess.run(
        ["mount", "-o", "loop", str(image), str(folder)], capture_output=True
    ).returncode:
        pytest.skip("mounting an image needs root and a loop device")
    try:
        yield folder
    finally:
        subprocess.run(["fsfreeze", "-u", str(folder)], capture_output=True)
        wait_until(
            lambda: subprocess.run(["umount", str(folder)], capture_output=True).returncode == 0,
            what="umount",
        )


@pytest.mark.long
def test_a_checkpoint_on_a_slow_disk_is_named(bed: CommandBed, slow_disk: Path) -> None:
    bed.write("staged.py", PROGRAM)
    model = ("--model-dir", str(slow_disk / "model"), "--save-seconds", "1")
    bed.done("up", "-d", *SYNC, "staged:program", *model)
    until_why(bed, worker_0=("training", []))
    subprocess.run(["fsfreeze", "-f", str(slow_disk)], check=True)
    until_why(
        bed,
        worker_0=("writing a checkpoint", []),
        worker_1=("in the barrier for step", ["worker:0"]),
    )
    subprocess.run(["fsfreeze", "-u", str(slow_disk)], check=True)
    end(bed)


@pytest.mark.long
@isolated
@pytest.mark.parametrize("encrypt", ["--encrypt", "--no-encrypt"])
def test_a_cut_link_between_two_hosts_is_named(
    far: CommandBed, hosts: HostBed, encrypt: str
) -> None:
    far.write("staged.py", PROGRAM)
    far.done("up", "-d", encrypt, "-H", hosts.names, *SYNC, "staged:program")
    until_why(far, worker_0=("training", []), worker_1=("training", []))
    ps = far.wait_for("ps:1", "running")
    worker, other = (
        next(host for host in hosts.hosts if host.name == name)
        for name in (far.wait_for("worker:1", "running").host, ps.host)
    )
    worker.run("ip", "route", "add", "blackhole", f"{other.address}/32")
    between = f"no connection from {worker.name} to {other.name}"
    try:
        until_why(
            far,
            worker_1=("in step", [f"ps:1 ({between}, {ps.address})"]),
            ps_1=("serves at", []),
        )
    finally:
        worker.run("ip", "route", "del", "blackhole", f"{other.address}/32")
    end(far)
