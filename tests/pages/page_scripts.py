"""The `train.py` that a documented command is about: each reads its role in the way of the kind of
script that its page speaks of."""

from __future__ import annotations

from beds.scripts import COORDINATOR, FLAGS, MODEL, OWN_SERVERS, SERVE, TRAIN

# The classic flags, and whatever else a page gives to it.
_FLAGS = FLAGS.replace(
    "a = p",
    """
for name in ("--lr", "--data", "--model-dir"):
    p.add_argument(name)
a = p""",
)

# Options of its own, and the cluster in a variable of its own.
_OWN_FLAGS = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--cluster")
parser.add_argument("--task", type=int)
given = parser.parse_args()
cluster = json.loads(os.environ["CLUSTER_SPEC"])
hosts = {name: ",".join(listed) for name, listed in cluster.items()}
assert given.cluster == "ps|{ps},worker|{worker}".format(**hosts), given
job_name, task_index = os.environ["PSCLUST_TASK"].split(":")[0], given.task
"""


def script_for(command: str) -> str:
    """The script that `command` speaks of."""
    if "--replication coordinator" in command:
        return COORDINATOR
    if "--job chief" in command:
        return OWN_SERVERS
    return (_OWN_FLAGS if "CLUSTER_SPEC" in command else _FLAGS) + SERVE + MODEL + TRAIN
