"""`psclust plan` of a psclust program: which ps would hold what."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from beds.command import CommandBed, typed
from beds.learning import DIGITS
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
    said = bed.done(*typed(f"plan --name x --ps 2 --workers 3 --sync {DIGITS}"))
    text = said[said.index("placement ") :]
    golden = GOLDEN / "plan-digits.txt"
    if os.environ.get("PSCLUST_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.long
def test_seconds_are_those_of_the_links_that_doctor_measured(bed: CommandBed) -> None:
    keep_links(bed.state, [Link(("nowhere1", "nowhere2"), 0.0941, 0.001, time.time())])
    bed.write("mine.py", PROGRAM)
    flags = ["-H", "nowhere1,nowhere2", "--ps", "1", "--workers", "1"]
    said = bed.done("plan", *flags, "mine:program")
    assert "BUSIEST PS  AT 0.094 Gbit/s" in said
    assert ": 0.094 Gbit/s, the slowest between nowhere1 and nowhere2\n" in said
    said = bed.done("plan", "--gbit", "2", *flags, "mine:program")
    assert "AT 2 Gbit/s" in said
    assert "doctor" not in said


@pytest.mark.long
def test_a_table_is_cut_and_its_rows_counted(bed: CommandBed) -> None:
    bed.write("mine.py", PROGRAM)
    flags = ["--ps", "2", "--placement", "balanced", "--max-shard-bytes", "40KB"]
    said = bed.done("plan", "--json", *flags, "mine:program", "--config", "wire_dtype=bfloat16")
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
    said = bed.done("plan", *flags, "mine:program", "--set", "even=false")
    assert "at least: how many rows a batch touches is not known before training (table)" in said


def test_the_table_has_whole_variables_where_training_will_have_them(bed: CommandBed) -> None:
    bed.write("mine.py", PROGRAM.replace("AdagradOptimizer(0.1)", "Mine(0.1)") + MINE)
    said = bed.done("plan", "--ps", "2", "mine:program", "--set", "words=100000")
    assert (
        "\nvariables are not partitioned: Mine is not known to be element-wise; "
        "max_shard_bytes: 1MB partitions them all the same\n"
    ) in said
    assert "table/part_1" not in said


@pytest.mark.long
def test_a_program_that_cannot_be_built_is_one_sentence_after_the_tasks(bed: CommandBed) -> None:
    bed.write("mine.py", PROGRAM)
    said = bed.fails(2, "plan", "mine:program", "--set", "broken=true")
    assert (
        "psclust: mine:program: its variables are not known: KeyError: 'nothing of that name'\n"
    ) in said
    assert "worker:1  on " in said
    assert "Traceback" not in said
