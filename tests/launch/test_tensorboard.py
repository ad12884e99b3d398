"""`tensorboard:` shows what the chief writes while it does, here and from other hosts; it ends with
the run, or stays if it was to."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.request
from typing import Any

import pytest
from on_hosts import write_file

from beds.command import CommandBed
from beds.hosts import HostBed
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

# Event files as TensorFlow writes them, without TensorFlow; until there is a file `enough`.
WRITES = """
import os, sys, time, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer, step = EventFileWriter("logs/train"), 0
while not os.path.exists("enough"):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=[value])))
    writer.flush()
    step += 1
    time.sleep(0.1)
"""
ALONE = {
    "program": "train.py",
    "preload": False,
    "role_by": "none",
    "jobs": {"worker": 1},
    "tensorboard": "logs",
}


def address_in(said: str) -> str:
    found = re.search(r"TensorBoard: http://([\d.:]+)", said)
    assert found, said
    return found[1]


def get(address: str, path: str) -> Any:
    """None while nothing answers."""
    try:
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=60) as reply:
            return json.loads(reply.read())
    except (urllib.error.URLError, ConnectionError):
        return None


def shown_steps(address: str) -> int:
    """How many steps of the loss it shows."""
    tags = get(address, "data/plugin/scalars/tags")
    return (
        len(get(address, "data/plugin/scalars/scalars?tag=loss&run=train"))
        if tags and "loss" in tags.get("train", {})
        else 0
    )


def test_it_follows_a_run_and_ends_with_it(bed: CommandBed) -> None:
    bed.write("train.py", WRITES)
    bed.write("psclust.yaml", json.dumps(ALONE))
    said = bed.done("up", "-d")
    address = address_in(said)
    first = wait_until(lambda: shown_steps(address), what="a curve")
    wait_until(lambda: shown_steps(address) > first, what="a longer curve")
    (board,) = [
        each for each in bed.processes() if "psclust.control.board_process" in each.cmdline()
    ]
    assert board.memory_info().rss < 200e6
    board.kill()
    noted = '"TensorBoard has ended, the run goes on; '
    wait_until(lambda: noted in bed.run_folder().status.read_text(encoding="utf-8"), what="a note")
    assert bed.wait_for("worker:0", "running")
    bed.done("down")
    assert get(address, "data/environment") is None


def test_it_is_gone_with_a_killed_launcher(bed: CommandBed) -> None:
    bed.write("train.py", WRITES)
    bed.write("psclust.yaml", json.dumps(ALONE))
    up = bed.start("up")
    up.until("TensorBoard: http")
    address = address_in(up.output)
    wait_until(lambda: get(address, "data/environment"), what="an answer")
    up.process.send_signal(signal.SIGKILL)
    up.wait()
    wait_until(lambda: get(address, "data/environment") is None, what="its end")


def test_one_that_is_kept_stays_at_its_address_until_it_is_ended(bed: CommandBed) -> None:
    bed.write("train.py", WRITES)
    bed.write("enough", "")
    bed.write("psclust.yaml", json.dumps(ALONE))
    said = bed.done("up", "--keep-tensorboard")
    kept = re.search(r"TensorBoard stays at http://([\d.:]+); end it with: kill (\d+)", said)
    assert kept
    assert kept[1] == address_in(said)
    assert get(kept[1], "data/environment")
    os.kill(int(kept[2]), signal.SIGTERM)
    for options in (["-d"], ["-f", "none.yaml"]):
        bed.write("none.yaml", json.dumps({**ALONE, "tensorboard": False}))
        said = bed.fails(2, "up", "--keep-tensorboard", *options)
        assert said.startswith("psclust: --keep-tensorboard: ")


def test_without_tensorboard_nothing_is_started(bed: CommandBed) -> None:
    (bed.folder / "hook").mkdir()
    bed.write("hook/sitecustomize.py", "import sys\nsys.modules['tensorboard'] = None\n")
    bed.write("train.py", WRITES)
    bed.write("psclust.yaml", json.dumps(ALONE))
    said = bed.fails(2, "up", env={"PYTHONPATH": str(bed.folder / "hook")})
    assert said == (
        "psclust: tensorboard: needs 'psclust[tensorboard]', which is not installed beside "
        "psclust. Install it: pip install 'psclust[tensorboard]'\n"
    )
    assert bed.cluster().current() is None


@pytest.mark.long
def test_event_files_come_from_a_host_as_they_grow(apart: CommandBed, hosts: HostBed) -> None:
    write_file(apart, hosts, WRITES, tensorboard="logs", role_by="none", jobs={"worker": 2})
    said = apart.done("up", "-d")
    address = address_in(said)
    first = wait_until(lambda: shown_steps(address), what="a curve")
    wait_until(lambda: shown_steps(address) > first, what="a longer curve")
    folder = apart.run_folder()
    (file,) = folder.summaries.rglob("*tfevents*")
    assert not (apart.folder / "logs").exists()
    apart.done("down")
    assert file.stat().st_size > 1000
    assert get(address, "data/environment") is None
