"""Runs on two hosts whose launcher sleeps, has no room left, or loses a host that is not needed any
more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from full_disk import fill, on_small_disk
from on_hosts import PATIENT, isolated, left, write_file

from beds.command import CommandBed, typed
from beds.host_fixtures import hosts_of_file
from beds.hosts import BedHost, HostBed
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


hosts = hosts_of_file(2)


@pytest.mark.long
def test_a_supervisor_that_slept_longer_than_the_lease_says_so(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT, jobs={"worker": 2}, deadlines={"lease": 3, "stop": 2})
    running = far.start("up")
    far.wait_for("worker:1", "running")
    supervisor = far.supervisor()
    supervisor.suspend()
    try:
        wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    finally:
        supervisor.resume()
    assert running.wait(300) == 1, running.output
    assert "the supervisor was suspended for " in running.output
    assert "without contact for 3 s agents end their tasks" in running.output
    assert "is lost" not in running.output
    assert "spare slot" not in running.output


@pytest.fixture
def small_disk(far: CommandBed) -> Iterator[CommandBed]:
    """What the launcher keeps is on a file system of 256 KiB."""
    with on_small_disk(far):
        yield far


# Says how far it is, as a program of psclust does, and goes on when it is told to; its first
# attempt as worker:1 is killed.
REPORTER = """
import json, os, signal, time
task, path = os.environ["PSCLUST_TASK"], os.environ["PSCLUST_PROGRESS"]
print("here is", task, os.environ["PSCLUST_ATTEMPT"], flush=True)
while not os.path.exists("full"):
    time.sleep(0.02)
with open(path, "w") as file:
    json.dump({"step": 7, "phase": "train"}, file)
time.sleep(0.5)
if task == "worker:1" and os.environ["PSCLUST_ATTEMPT"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_full_disk_here_does_not_hide_what_becomes_of_tasks_on_hosts(
    small_disk: CommandBed, hosts: HostBed
) -> None:
    write_file(small_disk, hosts, REPORTER, jobs={"worker": 2}, restart={"backoff": 0.1})
    running = small_disk.start("up")
    running.until("here is", 2)
    fill(small_disk.state)
    small_disk.write("full", "")
    assert running.wait(300) == 0, running.output
    assert "worker:1: attempt 2 starts" in running.output
    assert running.output.count("/progress: No space left on device; the run goes on") == 1, (
        running.output
    )


DIGITS = {
    "jobs": {"ps": {"count": 1, "hosts": ["h2"]}, "worker": {"count": 1, "hosts": ["h1"]}},
    "deadlines": {"stop": 2},
}

# The digits; to evaluate them takes until the file `go` appears.
SLOW = """
import os, time
from dataclasses import replace
from psclust.examples import digits

def input_fn(mode, params, shard):
    while mode == "eval" and not os.path.exists("go"):
        time.sleep(0.05)
    return digits.input_fn(mode, params, shard)

program = replace(digits.program, input_fn=input_fn)
"""


@pytest.mark.long
@isolated
@pytest.mark.tensorflow
def test_a_host_that_leaves_before_the_evaluation_is_not_missed(
    far: CommandBed, hosts: HostBed
) -> None:
    far.write("slow.py", SLOW)
    far.write("psclust.yaml", json.dumps({"hosts": ["h1", "h2"], **DIGITS}))
    own = typed(f"--set data_dir={far.folder}/digits --model-dir {far.folder}/model")
    up = far.start("up", "-f", "psclust.yaml", "slow:program", "--set", "epochs=1", *own)
    up.until("is up")
    # As the supervisor knows it.
    log = far.run_folder().supervisor_log
    wait_until(
        lambda: "Stage.TRAINED" in log.read_text() or up.process.poll() is not None,
        what="the end of the training",
    )
    _dismiss(hosts[1])
    up.until("host h2 is to be left, with ps:0: it got SIGTERM; the training is over")
    wait_until(lambda: not hosts[1].programs(), what="the end of what was there")
    far.write("go", "")
    assert up.wait() == 0, up.output
    assert "evaluation: accuracy" in up.output
    assert far.wait_for("ps:0", "stopped").attempt == 1


def _dismiss(host: BedHost) -> None:
    """As a host does that shuts down."""
    for process in host.processes():
        with suppress(psutil.NoSuchProcess):
            if "psclust.agent" in process.cmdline():
                process.terminate()
