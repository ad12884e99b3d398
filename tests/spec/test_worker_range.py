"""How many workers a run has whose cluster file gives `min` and `max`."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from written_files import write

from psclust.cli.request import _worker_overrides
from psclust.errors import UsageError
from psclust.spec.load import load

ELASTIC = "program: a:b\ninput: handed_out\njobs: {ps: 1, worker: WORKER}\n"


def workers(folder: Path, worker: str, more: str = "", flag: str | None = None) -> int:
    path = write(folder, ELASTIC.replace("WORKER", worker) + more)
    return load(path, _worker_overrides(flag), default_name="x").jobs["worker"].count


@pytest.mark.parametrize(
    ("worker", "hosts", "count"),
    [
        ("{min: 2, max: 16}", "hosts: a:4,b:4", 7),
        ("{min: 2, max: 3}", "hosts: a:4,b:4", 3),
        ("{min: 2, max: 16}", "hosts: a,b", 16),
        ("{min: 2, max: 16}", "hosts: a:4,b", 16),
        ("{min: 2, max: 5}", "", 5),
        ("{max: 5}", "hosts: a:2,b:2", 3),
        ("{min: 3}", "hosts: a:4,b:4", 3),
        ("{count: 4, min: 2, max: 16}", "hosts: a:4,b:4", 4),
        ("{min: 2, max: 16}", "hosts: a:4,b:4\nreplication: in-graph", 6),
    ],
)
def test_without_a_count_there_are_as_many_workers_as_slots_between_min_and_max(
    worker: str, hosts: str, count: int, tmp_path: Path
) -> None:
    assert workers(tmp_path, worker, hosts) == count


def test_a_flag_gives_the_range_and_leaves_the_count_open(tmp_path: Path) -> None:
    assert workers(tmp_path, "3", "hosts: a:4,b:4", "2:16") == 7
    assert workers(tmp_path, "{count: 3, min: 2, max: 4}", "hosts: a:4,b:4", "4") == 4


@pytest.mark.parametrize("text", ["two", "2:", ":3", "2:3:4", "-1", ""])
def test_a_flag_that_is_no_number_of_workers_is_refused(text: str) -> None:
    with click.Context(click.Command("up")), pytest.raises(UsageError, match="--workers 2:16"):
        _worker_overrides(text)
