"""A training goes on without a worker that gets no other attempt, and uses the data that the worker
held: every example once an epoch, but for the batch of the step in which it died."""

from __future__ import annotations

import pytest

from beds.command import CommandBed
from beds.growing import BATCH, growing, in_ways
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


@in_ways()
def test_a_training_goes_on_without_a_worker(bed: CommandBed, way: str) -> None:
    jobs = {"ps": 1, "worker": {"count": 3, "min": 2}}
    run = growing(bed, way, jobs=jobs, restart={"max": 0}, examples=1500)
    client = "client:0" if way.startswith("in-graph") else "worker:0"
    run.reach(20, client)
    ps = bed.wait_for("ps:0", "running").pid
    bed.signal("worker:1")
    if way == "between-graph --async":
        bed.wait_for("worker:1", "dropped")
        run.reach(run.step(client) + 20, client)
        assert run.attempts()[client] == 1
    else:
        wait_until(lambda: "worker:2" not in run.attempts(), what="two workers")
        bed.wait_for(client, "running", attempt=2)
        wait_until(lambda: "step " in bed.log(client, 2), what="a step of two workers")
    assert bed.wait_for("ps:0", "running").pid == ps
    run.hurry()
    odd = [count for count in run.used() if count != run.epochs]
    assert len(odd) <= BATCH
