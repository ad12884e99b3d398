"""What `up` says while a cluster comes up and how its run ended, and who decides that."""

from __future__ import annotations

import pytest

from beds.command import CommandBed

pytestmark = pytest.mark.process

SERVE = """
import os, socket, sys, time
while not os.path.exists("go"):
    time.sleep(0.02)
host, _, port = sys.argv[1].rpartition(":")
server = socket.create_server((host, int(port)))
time.sleep(600)
"""

CONTROLLER = """
import json, os
import tensorflow.compat.v1 as tf
told = json.loads(os.environ["TF_CONFIG"])
me = told["task"]
if me["type"] == "worker":
    tf.train.Server({"worker": told["cluster"]["worker"]}, "worker", me["index"]).join()
with tf.Graph().as_default(), tf.Session("grpc://" + told["cluster"]["worker"][0]) as session:
    print("the sum is", session.run(tf.constant(1) + tf.constant(2)))
"""


@pytest.mark.tensorflow
def test_a_controller_whose_workers_only_serve_ends_the_run(bed: CommandBed) -> None:
    bed.write("train.py", CONTROLLER)
    bed.write(
        "psclust.yaml", "jobs: {controller: 1, worker: 1}\nprogram: train.py\nrole_by: tf_config\n"
    )
    assert "controller:0 | the sum is 3" in bed.done("up")


def test_a_cluster_is_up_when_its_ps_script_answers_and_until_then_up_says_what_it_waits_for(
    bed: CommandBed,
) -> None:
    bed.write("serve.py", SERVE)
    bed.write(
        "psclust.yaml",
        "jobs: {ps: {run: [python, serve.py, '{address}']}, worker: {run: [sleep, '600']}}\n"
        "program: serve.py\ndeadlines: {stop: 1}\n",
    )
    up = bed.start("up")
    up.until("waiting for ps:0 to answer at 127.0.0.1:")
    assert "is up" not in up.output
    bed.write("go", "")
    up.until("bed is up")
    up.interrupt()
    assert up.wait() == 130


def test_no_cluster_is_up_whose_program_failed_at_once(bed: CommandBed) -> None:
    # A shell begins in no time, on a busy machine, too.
    failing = "{count: 2, run: [sh, -c, 'echo no such data; exit 1']}"
    bed.write("psclust.yaml", f"jobs: {{worker: {failing}}}\n")
    said = bed.fails(1, "up")
    assert "no such data" in said
    assert "is up" not in said


@pytest.mark.parametrize(
    ("key", "code", "text"),
    [("", 124, "was stopped after"), (", run_exit_code: 0", 0, "ended well after")],
)
def test_a_time_limit_is_no_failure_of_the_program(
    bed: CommandBed, key: str, code: int, text: str
) -> None:
    bed.write(
        "psclust.yaml",
        f"jobs: {{worker: {{run: [sleep, '600']}}}}\ndeadlines: {{run: 0.5, stop: 1{key}}}\n",
    )
    ended, said = bed.run("up")
    assert ended == code, said
    assert text in said
    assert "the time limit of 0.5 s was reached (deadlines.run)" in said


def test_an_exit_code_that_counts_as_success_is_told(bed: CommandBed) -> None:
    bed.write("psclust.yaml", "jobs: {chief: {run: [sh, -c, 'exit 7'], ok_exit_codes: [0, 7]}}\n")
    said = bed.done("up")
    assert "ended well" in said
    assert "chief:0 exited with code 7, which its ok_exit_codes allow" in said
