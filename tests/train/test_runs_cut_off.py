"""What is left of a run whose client dies as it begins: a server may execute what needs nothing
that is fed, and nothing else."""

from __future__ import annotations

import pytest
import tensorflow as tf
import wide

from beds.graphs import build
from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.graph_walk import before, reached
from psclust.replication.state_changes import written

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(("width", "streamed"), [(500, True), (50, False)])
def test_none_of_the_variables_is_written(width: int, streamed: bool) -> None:
    program = wide.trained.with_params({"width": width})
    placement = PlacementSettings(max_shard_bytes="none")
    with tf.Graph().as_default():
        ops = build(program, "between-graph sync", placement).coordinator
        assert ops is not None
        assert (ops.stream is not None) is streamed
        feeds, runs = {ops.made.op.name}, [[ops.update]]
        if ops.stream:
            feeds.add(ops.stream.members.op.name)
            runs.append(ops.stream.stream)
        names = set()
        for run in runs:
            # A fed op waits for nothing.
            within = reached(
                [getattr(fetch, "op", fetch) for fetch in run],
                lambda one: [] if one.name in feeds else before(one),
            )
            for variable, writers in written(within.values()).values():
                for writer in (each for each in writers if each.type != "ReadVariableOp"):
                    assert not feeds.isdisjoint(reached([writer], before)), (
                        f"{writer.name} writes {variable.name} before it is told to"
                    )
                    names.add(variable.op.name)
        assert {"global_step", "psclust/positions", "layer0", "bias3", "layer2/Momentum"} <= names
