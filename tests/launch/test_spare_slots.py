"""A host is lost in the middle of a run: its tasks move to a spare slot and all start again, or the
run ends and says why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import BedHost, HostBed
from beds.learning import is_learned
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

DIGITS = """
hosts: h1:1, h2:1, h3:1
jobs: {{ps: 1, worker: 1}}
program: psclust.examples.digits:program
args: [--set, epochs=20, --set, "data_dir={folder}/digits", --config, save_steps=20,
  --model-dir, "{folder}/model"]
deadlines: {{lease: 6, stop: 2}}
"""

PATIENT = """
hosts: h1:1, h2:1, h3:1
jobs: {worker: 2}
program: train.py
preload: false
deadlines: {lease: 5, stop: 2}
"""

# Writes the time again and again into a file of its own; the first attempt is deaf to TERM.
BEATS = """
import os, signal, time
if os.environ["PSCLUST_ATTEMPT"] == "1":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
with open(os.environ["PSCLUST_TASK"] + "." + os.environ["PSCLUST_ATTEMPT"], "a") as file:
    while True:
        print(time.time(), file=file, flush=True)
        time.sleep(0.05)
"""


hosts = hosts_of_file(3)


@contextmanager
def cut(host: BedHost) -> Iterator[None]:
    host.cut()
    try:
        yield
    finally:
        host.heal()


@pytest.mark.long
@pytest.mark.tensorflow
def test_the_chief_moves_to_a_spare_host_and_the_digits_are_learned_from_the_last_checkpoint(
    far: CommandBed, hosts: HostBed
) -> None:
    far.write("psclust.yaml", DIGITS.format(folder=far.folder))
    up = far.start("up")
    wait_until(
        lambda: "| step " in up.output and (far.folder / "model" / "checkpoint").exists(),
        what="the first steps",
    )
    assert far.wait_for("worker:0", "running").host == "h2"
    # Of both kinds, for whatever comes.
    loaded = [each for each in hosts[2].programs() if "fork_server" in each]
    assert len(loaded) == 2, hosts[2].programs()
    with cut(hosts[1]):
        assert up.wait(300) == 0, up.output
    assert re.search(
        r"host h2 is lost, with worker:0: .*; moved: worker:0 to h3; all tasks start again",
        up.output,
    ), up.output
    assert far.wait_for("worker:0", "done", attempt=2).host == "h3"
    assert "restored" in far.log("worker:0", 2)
    assert is_learned(up.output), up.output


def test_tasks_move_while_there_is_a_spare_slot_and_a_host_that_comes_back_is_none(
    far: CommandBed, hosts: HostBed
) -> None:
    far.write("psclust.yaml", PATIENT)
    far.write("train.py", BEATS)
    up = far.start("up")
    up.until("| up", 2)
    with cut(hosts[1]):
        wait_until(lambda: "up" in far.log("worker:1", 2), what="the worker elsewhere")
        assert far.wait_for("worker:1", "running", attempt=2).host == "h3"
        if hosts[1].isolated:
            wait_until(lambda: not hosts[1].programs(), what="the end of what was there")
            ended, began = (
                (far.folder / f"worker:1.{attempt}").read_text().split() for attempt in (1, 2)
            )
            assert float(ended[-1]) < float(began[0]) + 1, "twice for no longer than a second"
    wait_until(lambda: not hosts[1].programs(), what="the end of what was there")
    assert "nothing differs" in far.done("up")
    assert "`up` would change nothing" in far.run("plan")[1]
    with cut(hosts[2]):
        assert up.wait() == 1, up.output
    assert "host h3 is lost, with worker:1: " in up.output
    assert (
        "no spare slot is left for worker:1; a host with more `slots` than tasks lets a run go on"
        in up.output
    )
