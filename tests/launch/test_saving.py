"""SIGUSR1 to `psclust up`: the programs save their work, the run ends with a code of its own, and
the next run resumes."""

from __future__ import annotations

import re
import signal

import pytest
from four_ways import in_all_four_ways

from beds.command import CommandBed, typed
from beds.learning import DIGITS

pytestmark = pytest.mark.process

# What a script does about it is its own business; its server is there meanwhile.
_SAVES = """import os, signal, socket, sys, time
def save(number, frame):
    host, port = os.environ["SERVER"].split(":")
    socket.create_connection((host, int(port)), 5).close()
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("at work", flush=True)
time.sleep(1000)
"""


def test_a_script_gets_usr1_while_its_servers_answer(bed: CommandBed) -> None:
    bed.write("train.py", _SAVES)
    bed.write(
        "psclust.yaml",
        "jobs: {ps: {run: server}, worker: 2}\nprogram: train.py\n"
        "env: {SERVER: '{address:ps:0}'}\nrole_by: none\n",
    )
    running = bed.start("up", "--no-preload")
    running.until("at work", 2)
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait() == 75, running.output
    assert running.output.count("saved\n") == 2
    assert "was stopped after" in running.output
    assert "saved and stopped (SIGUSR1)" in running.output


@pytest.mark.tensorflow
@in_all_four_ways()
def test_a_training_ends_with_a_checkpoint_and_resumes_from_it(
    bed: CommandBed, replication: str, update: str
) -> None:
    command = typed(
        f"up --workers 2 --replication {replication} {update} {DIGITS} --model-dir model"
    )
    running = bed.start(*command, "--set", "epochs=100000")
    running.until(" step ")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait() == 75, running.output
    saved = re.search(
        r"ended at step (\d+) before the training was over: SIGUSR1 asked for it", running.output
    )
    assert saved, running.output
    said = bed.done(
        *command, "--max-steps", str(int(saved[1]) + 20), env={"SLURM_RESTART_COUNT": "1"}
    )
    assert f"resumed at step {saved[1]} (attempt 2)" in said
