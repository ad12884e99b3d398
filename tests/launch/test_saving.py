"""SIGUSR1 to `psclust up`: the programs save their work, the run ends with a code of its own, and
the next run resumes."""

from __future__ import annotations

import re
import signal

import pytest
from four_ways import in_all_four_ways

from beds.command import CommandBed
from psclust.testing.wait import wait_until

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
    wait_until(lambda: running.output.count("at work") == 2, what="both programs")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait() == 75, running.output
    assert running.output.count("saved\n") == 2
    assert "was stopped after" in running.output
    assert "saved and stopped (SIGUSR1)" in running.output


def test_a_program_that_ignores_it_is_killed_when_its_time_to_finish_is_over(
    bed: CommandBed,
) -> None:
    bed.write(
        "train.py",
        "import signal, time\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "print('at work', flush=True)\ntime.sleep(1000)\n",
    )
    bed.write(
        "psclust.yaml",
        "jobs: {worker: 1}\nprogram: train.py\nrole_by: none\npreload: false\n"
        "deadlines: {finish: 1s}\n",
    )
    running = bed.start("up")
    wait_until(lambda: "at work" in running.output, what="the program")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait() == 75, running.output


@pytest.mark.tensorflow
@in_all_four_ways(cheap=("between-graph", "--sync"))
def test_a_training_ends_with_a_checkpoint_and_resumes_from_it(
    bed: CommandBed, replication: str, update: str
) -> None:
    command = [
        "up",
        "--workers",
        "2",
        "--replication",
        replication,
        update,
        "psclust.examples.digits:program",
        "--model-dir",
        "model",
    ]
    running = bed.start(*command, "--set", "epochs=100000")
    wait_until(lambda: " step " in running.output, what="the first steps")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait() == 75, running.output
    saved = re.search(
        r"ended at step (\d+) before the training was over: SIGUSR1 asked for it", running.output
    )
    assert saved, running.output
    code, said = bed.run(
        *command, "--max-steps", str(int(saved[1]) + 20), env={"SLURM_RESTART_COUNT": "1"}
    )
    assert code == 0, said
    assert f"resumed at step {saved[1]} (attempt 2)" in said


@pytest.mark.tensorflow
def test_a_second_run_with_the_same_model_folder_waits_for_the_end_of_the_first(
    bed: CommandBed,
) -> None:
    words = (
        "--ps",
        "1",
        "--workers",
        "1",
        "psclust.examples.digits:program",
        "--model-dir",
        "model",
        "--set",
    )
    first = bed.start("up", "--name", "first", *words, "epochs=1000")
    wait_until(lambda: "| step " in first.output, what="the first run's steps")
    second = bed.start("up", "--name", "second", *words, "epochs=1")
    wait_until(
        lambda: "writes into this folder" in second.output, what="the second to see the first"
    )
    assert bed.run("down", "first")[0] == 0
    assert first.wait() == 143
    assert second.wait() == 0, second.output
    assert "restored " in second.output
