"""`psclust init`: what it asks, what it sees in a script, and that the file it writes starts as it
is."""

from __future__ import annotations

import json

import pytest
import yaml
from jsonschema import validate

from beds.command import CommandBed
from beds.terminal import Terminal
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

FLAGS = """\
import argparse
parser = argparse.ArgumentParser()
for name in ("ps_hosts", "worker_hosts", "job_name", "task_index"):
    parser.add_argument("--" + name)
"""
WROTE = (
    "wrote cluster.psclust.yaml, and .psclust.schema.json for editors; "
    "look at it, then: psclust up\n"
)


@pytest.mark.parametrize(
    ("source", "keys", "said"),
    [
        (
            FLAGS,
            {"role_by": "flags"},
            (
                "train.py defines --ps_hosts, --worker_hosts, --job_name, "
                "--task_index: each task gets them"
            ),
        ),
        (
            FLAGS.replace('"task_index"', '"data"'),
            {},
            "train.py defines --ps_hosts, --worker_hosts, --job_name: each task gets that",
        ),
        (
            FLAGS + "import os\nos.environ['TF_CONFIG']\n",
            {},
            "train.py defines --ps_hosts, --worker_hosts, --job_name, --task_index and reads",
        ),
        ("parser.add_argument('--known_hosts')\n", {}, "train.py defines none of --ps_hosts"),
        (
            "import os\nos.environ['TF_CONFIG']\n",
            {"role_by": "tf_config"},
            "train.py reads its role from TF_CONFIG",
        ),
        (
            "import tensorflow as tf\ntf.distribute.coordinator.ClusterCoordinator(s)\n",
            {"replication": "coordinator"},
            "train.py coordinates workers: its chief alone runs it",
        ),
        (
            "import tensorflow as tf\ntf.distribute.experimental.ParameterServerStrategy(r)\n",
            {"replication": "coordinator"},
            "train.py coordinates workers",
        ),
        (
            (
                "import os, tensorflow as tf\nos.environ['TF_CONFIG']\ntf.distribute.Server(c)\n"
                "tf.distribute.ParameterServerStrategy(r)\n"
            ),
            {"role_by": "tf_config"},
            "train.py reads its role from TF_CONFIG",
        ),
        (
            "import psclust\nmine = psclust.Program(f, g)\n",
            {"program": "train:mine"},
            "train.py makes a psclust.Program",
        ),
        ("print('hello')\n", {}, "train.py defines none of --ps_hosts"),
    ],
    ids=[
        "flags",
        "three flags",
        "both",
        "another flag",
        "tf_config",
        "coordinator",
        "strategy",
        "servers",
        "program",
        "none",
    ],
)
def test_a_script_is_looked_at(
    bed: CommandBed, source: str, keys: dict[str, object], said: str
) -> None:
    bed.write("train.py", source)
    output = bed.done_here("init", "--from", "train.py")
    assert output.startswith(said)
    assert output.endswith(WROTE)
    text = (bed.folder / "cluster.psclust.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    assert {
        key: written.get(key) for key in ("program", "role_by", "replication") if key in written
    } == {"program": "train.py", **keys}
    schema = text.splitlines()[0].partition("$schema=")[2]
    validate(written, json.loads((bed.folder / schema).read_text(encoding="utf-8")))


def test_up_finds_the_file_and_names_the_cluster_after_the_folder(bed: CommandBed) -> None:
    assert bed.done_here("init", "true.py") == WROTE
    bed.write("true.py", "")
    said = bed.done_here("plan")
    assert said.endswith(f"{bed.folder.name} is not up; `up` would start 3 tasks.\n")
    said = bed.fails_here(2, "init")
    assert said == (
        "psclust: cluster.psclust.yaml exists already; it is left as it is. "
        "Choose another name with -f.\n"
    )
    bed.done_here("init", "-f", "psclust.yaml", "true.py")
    assert bed.fails_here(2, "plan") == (
        "psclust: there are psclust.yaml and cluster.psclust.yaml here; "
        "name one with -f, or remove one.\n"
    )
    assert bed.run_here("init", "--from", "no.py", "-f", "x.yaml")[1].startswith(
        "psclust: --from no.py: there is no such file here"
    )


def test_on_a_terminal_it_asks(bed: CommandBed) -> None:
    bed.write("train.py", FLAGS)
    terminal = Terminal([*bed.command, "init"], cwd=bed.folder, env=bed.environment())
    for question, answer in (
        ("What do you train?", "train.py"),
        ("ps tasks?", ""),
        ("workers?", "4"),
        ("which hosts?", "a:2,b:3"),
    ):
        wait_until(
            lambda question=question: question in terminal.written,  # type: ignore[misc]
            what=question,
        )
        terminal.type(f"{answer}\n")
    assert terminal.wait() == 0, terminal.written
    written = yaml.safe_load((bed.folder / "cluster.psclust.yaml").read_text(encoding="utf-8"))
    assert (written["jobs"], written["hosts"], written["role_by"]) == (
        {"ps": 1, "worker": 4},
        "a:2,b:3",
        "flags",
    )
