"""Several devices in each worker of a cluster, as the cluster file asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beds.command import CommandBed, typed
from beds.learning import DIGITS

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

SPEC = Path(__file__).parents[2] / "cluster_specs" / "towers.yaml"


@pytest.mark.parametrize(
    "replication", ["in-graph", pytest.param("between-graph", marks=pytest.mark.long)]
)
def test_workers_have_a_tower_on_each_of_their_devices(bed: CommandBed, replication: str) -> None:
    import tensorflow as tf

    model = bed.folder / "model"
    bed.done(
        *typed(f"up -f {SPEC} --workers 1 --replication {replication}"),
        *typed(f"{DIGITS} --max-steps 8 --model-dir {model}"),
    )
    reader = tf.train.load_checkpoint(str(model))
    assert reader.get_tensor("global_step") == 8
    assert reader.get_tensor("psclust/positions").tolist() == [8, 8]
