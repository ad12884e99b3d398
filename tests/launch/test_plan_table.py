"""`psclust plan` of a psclust program: which ps would hold what."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from beds.command import CommandBed
from psclust.rundir.links_file import Link, keep_links

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

GOLDEN = Path(__file__).parent / "golden"

PROGRAM = """
import psclust, tensorflow as tf

print("importing", "psclust-variables or not")

def model_fn(features, labels, mode, params):
    table = tf.compat.v1.get_variable("table", [params["words"], 16])
    rows = tf.nn.embedding_lookup(table, features)
    if params["broken"]:
        raise KeyError("nothing of that name")
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean(rows))

def input_fn(params):
    return tf.data.Dataset.range(100).batch(10, drop_remainder=params["even"])

def optimizer_fn():
    return tf.compat.v1.train.AdagradOptimizer(0.1)

params = {"words": 1000, "even": True, "broken": False}
program = psclust.Program(model_fn, input_fn, optimizer_fn, params=params)
"""

MINE = """
class Mine(tf.compat.v1.train.AdagradOptimizer):
    pass

tf.compat.v1.train.Mine = Mine
"""


def test_the_table_of_the_digits_is_as_it_was(bed: CommandBed) -> None:
    code, said = bed.run(
        "plan",
        "--name",
        "x",
        "--ps",
        "2",
        "--workers",
        "3",
        "--sync",
        "psclust.examples.digits:program",
    )
    assert code == 0, said
    text = said[said.index("placement ") :]
    golden = GOLDEN / "plan-digits.txt"
    if os.environ.get("PSCLUST_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_seconds_are_those_of_the_links_that_doctor_measured(bed: CommandBed) -> None:
    keep_links(bed.state, [Link(("nowhere1", "nowhere2"), 0.0941, 0.001, time.time())])
    bed.write("mine.py", PROGRAM)
    flags = ["-H", "nowhere1,nowhere2", "--ps", "1", "--workers", "1"]
    code, said = bed.run("plan", *flags, "mine:program")
    assert code == 0, said
    assert "BUSIEST PS  AT 0.094 Gbit/s" in said
    assert ": 0.094 Gbit/s, the slowest between nowhere1 and nowhere2\n" in said
    code, said = bed.run("plan", "--gbit", "2", *flags, "mine:program")
    assert code == 0, said
    assert "AT 2 Gbit/s" in said
    assert "doctor" not in said


@pytest.mark.long
def test_a_table_is_cut_and_its_rows_counted(bed: CommandBed) -> None:
    bed.write("mine.py", PROGRAM)
    flags = ["--ps", "2", "--placement", "balanced", "--max-shard-bytes", "40KB"]
    code, said = bed.run(
        "plan", "--json", *flags, "mine:program", "--config", "wire_dtype=bfloat16"
    )
    assert code == 0, said
    placement = json.loads(said)["placement"]
    assert [(row["variable"], row["shape"], row["ps"]) for row in placement["table"]["rows"]] == [
        ("table/part_0", [500, 16], 0),
        ("table/part_1", [500, 16], 1),
    ]
    assert placement["wire_dtype"] == "bfloat16"
    asynchronous = next(
        wire for wire in placement["table"]["wire"] if wire["way"] == placement["way"]
    )
    # Ten rows of 16 elements of two bytes, and ten indices of eight.
    assert (asynchronous["pulled"], asynchronous["pushed"], asynchronous["at_least"]) == (
        320,
        400,
        False,
    )


@pytest.mark.long
def test_rows_that_depend_on_the_batch_are_marked_and_a_lone_table_is_warned_of(
    bed: CommandBed,
) -> None:
    bed.write("mine.py", PROGRAM)
    code, said = bed.run(
        "plan", "--ps", "2", "--max-shard-bytes", "none", "mine:program", "--set", "even=false"
    )
    assert code == 0, said
    assert "at least: how many rows a batch touches is not known before training (table)" in said
    assert (
        "warning: ps:0 holds 100 % of the variables' bytes (2.0 times the mean), "
        "64.0 kB of them in table; " in said
    )
    assert "write placement: {policy: balanced, max_shard_bytes: 32KiB} to partition table." in said
    code, said = bed.run("plan", "--ps", "2", "mine:program", "--set", "words=100000")
    assert code == 0, said
    assert "table/part_1" in said
    assert "warning" not in said


def test_the_table_has_whole_variables_where_training_will_have_them(bed: CommandBed) -> None:
    bed.write("mine.py", PROGRAM.replace("AdagradOptimizer(0.1)", "Mine(0.1)") + MINE)
    code, said = bed.run("plan", "--ps", "2", "mine:program", "--set", "words=100000")
    assert code == 0, said
    assert (
        "\nvariables are not partitioned: Mine is not known to be element-wise; "
        "max_shard_bytes: 1MB partitions them all the same\n"
    ) in said
    assert "table/part_1" not in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (["mine:progam"], "psclust: mine:progam: module 'mine' has no 'progam'; it has program\n"),
        (
            ["mine:program", "--set", "broken=true"],
            (
                "psclust: mine:program: its variables are not known: KeyError: "
                "'nothing of that name'\n"
            ),
        ),
    ],
)
def test_a_program_that_cannot_be_built_is_one_sentence_after_the_tasks(
    bed: CommandBed, program: list[str], sentence: str
) -> None:
    bed.write("mine.py", PROGRAM)
    code, said = bed.run("plan", *program)
    assert code == 2
    assert sentence in said
    assert "worker:1  on " in said
    assert "Traceback" not in said
