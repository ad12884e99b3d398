"""A disk that is full for a moment."""

from __future__ import annotations

import pytest
from ways import Start, replications

from psclust.errors import NotFiniteError, PsclustError
from psclust.testing.wait import wait_until
from psclust.train.checkpoints.patience import patiently


def test_it_tries_again_until_it_can_write_or_time_is_over() -> None:
    tries = []

    def write() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise PsclustError("full")

    patiently(write, pause_s=0.0)
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(PsclustError, match="full"):
        patiently(write, patience_s=-1.0)
    assert len(tries) == 1


def test_what_no_other_try_would_mend_ends_it() -> None:
    def write() -> None:
        raise NotFiniteError("NaN")

    with pytest.raises(NotFiniteError):
        patiently(write)


@pytest.mark.process
@pytest.mark.tensorflow
@replications("between-graph")
def test_the_last_checkpoint_waits_for_a_disk(processes: Start, replication: str) -> None:
    training = processes(
        replication, False, "handed_out:program", "--max-steps", "150", pause=0, examples=9000
    )
    chief = "client:0" if replication == "in-graph" else "worker:0"
    model = training.folder / "model"
    training.reach(chief, 1)
    aside = model.rename(model.with_name("aside"))
    model.write_text("in the way")
    wait_until(lambda: "; trying for 30 s" in training.log(chief), what="the first try")
    model.unlink()
    aside.rename(model)
    assert training.end_well().step >= 150
