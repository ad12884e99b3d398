"""The law of the house: the same data gives the same weights, whatever the replication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trained import read_checkpoint, same

pytestmark = pytest.mark.tensorflow
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process makes of the data of `quartet`."""
    import quartet

    folder = tmp_path_factory.mktemp("alone")
    assert quartet.program.train(folder) == quartet.STEPS
    return read_checkpoint(folder)


# Between-graph the towers inside workers below say the same and more.
@pytest.mark.parametrize("workers", [pytest.param(1, marks=LONG), 2, pytest.param(4, marks=LONG)])
@pytest.mark.parametrize("replication", ["in-graph", pytest.param("between-graph", marks=LONG)])
def test_towers_and_workers_train_as_one_process(
    train_here: Callable[..., Any], alone: Any, replication: str, workers: int
) -> None:
    import quartet

    same(alone, train_here(quartet.program, replication, sync=True, workers=workers))


@pytest.mark.parametrize(
    ("replication", "workers", "devices", "split"),
    [
        pytest.param(None, 1, 4, False, marks=LONG),
        pytest.param(None, 1, 4, True, marks=LONG),
        pytest.param("in-graph", 2, 2, True, marks=LONG),
        pytest.param("in-graph", 2, 2, False, marks=LONG),
        pytest.param("between-graph", 1, 2, False, marks=LONG),
        pytest.param("between-graph", 1, 2, True, marks=LONG),
        ("between-graph", 2, 2, True),
        pytest.param("between-graph", 2, 2, False, marks=LONG),
    ],
)
def test_towers_inside_workers_train_as_one_process(
    train_here: Callable[..., Any],
    alone: Any,
    replication: str | None,
    workers: int,
    devices: int,
    split: bool,
) -> None:
    import quartet

    program = quartet.program.with_config([f"split_batch={split}"])
    same(alone, train_here(program, replication, sync=True, workers=workers, devices=devices))


def test_an_uneven_last_batch_is_weighted_by_its_examples(train_here: Callable[..., Any]) -> None:
    import toys

    # The ninth batch has 4 points for three replicas: 2, 1 and 1.
    alone = train_here(toys.line)
    assert alone.step == 9
    same(alone, train_here(toys.line, "in-graph", sync=True, workers=3))
    same(alone, train_here(toys.line, "between-graph", sync=True, workers=3))


@LONG
def test_a_replica_with_less_data_ends_first_and_the_others_go_on(
    train_here: Callable[..., Any],
) -> None:
    import toys

    # 97 points in batches of 12: the first replica of two has 49 points, nine batches, the second
    # 48, eight batches.
    program = toys.line.with_params({"points": 97})
    alone = train_here(program)
    assert alone.step == 9
    in_graph = train_here(program, "in-graph", sync=True)
    between = train_here(program, "between-graph", sync=True)
    same(alone, in_graph)
    same(alone, between)
    assert (
        in_graph.values["psclust/positions"].tolist()
        == between.values["psclust/positions"].tolist()
        == [9, 8]
    )
