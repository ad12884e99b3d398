"""Which old runs are removed, and that live ones never are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from psclust.rundir.folder import ClusterFolder, RunFolder, clusters
from psclust.rundir.old_runs import (
    KEPT_IN_ALL,
    OldRun,
    chosen,
    old_runs,
    prune_beyond_limit,
    remove,
)

LATEST_FIRST = [
    OldRun(name, f"{name}{ended}", float(ended), ended > 70)
    for name, ended in (("a", 90), ("b", 80), ("a", 70), ("a", 60), ("b", 50))
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "a90 b80 a70 a60 b50"),
        ({"names": ["b"]}, "b80 b50"),
        ({"keep": 1}, "a70 a60 b50"),
        ({"older_than": 70.0}, "a60 b50"),
        ({"keep": 1, "older_than": 65.0, "names": ["a"]}, "a60"),
    ],
)
def test_runs_are_chosen_by_name_count_and_age(wanted: dict[str, object], found: str) -> None:
    runs = chosen(LATEST_FIRST, **wanted)  # type: ignore[arg-type]
    assert [run.run for run in runs] == found.split()


def ended_runs(cluster: ClusterFolder, ended: Sequence[float]) -> list[RunFolder]:
    runs = [cluster.new_run() for _ in ended]
    for run, when in zip(runs, ended, strict=True):
        run.status.write_text("{}")
        os.utime(run.status, (when, when))
    return runs


def test_all_runs_of_a_name_take_its_folder_with_them(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    ended_runs(cluster, [10, 20])
    ended_runs(ClusterFolder(tmp_path / "two"), [15])
    assert [(run.name, run.ended) for run in old_runs(tmp_path)] == [
        ("one", 20),
        ("two", 15),
        ("one", 10),
    ]
    assert len(remove(tmp_path, chosen(old_runs(tmp_path), names=["one"]))) == 2
    assert [entry.name for entry in clusters(tmp_path)] == ["two"]
    assert not cluster.path.exists()


def test_a_live_run_is_never_removed_and_older_ones_of_its_name_are(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    lock = cluster.lock()
    assert lock is not None
    runs = ended_runs(cluster, [10, 20, 30])
    assert [run.run for run in old_runs(tmp_path)] == [runs[1].id, runs[0].id]
    os.close(lock)
    before = old_runs(tmp_path)  # the last one has ended, and then another begins
    lock = cluster.lock()
    assert lock is not None
    assert {run.run for run in remove(tmp_path, before)} == {runs[0].id, runs[1].id}
    assert cluster.current() == runs[2]
    os.close(lock)


def test_the_last_run_stays_while_something_is_left_on_other_hosts(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    runs = ended_runs(cluster, [10, 20])
    cluster.hosts.write_text('{"one.1": {}}')
    assert [run.run for run in remove(tmp_path, old_runs(tmp_path))] == [runs[0].id]
    cluster.hosts.write_text("{}")
    assert [run.run for run in remove(tmp_path, old_runs(tmp_path))] == [runs[1].id]


def test_who_waits_for_a_lock_that_is_pruned_gets_one_that_counts(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    cluster.new_run()
    held = cluster.lock()
    assert held is not None
    (cluster.path / "lock").unlink()
    os.close(held)
    first = cluster.lock()
    assert first is not None
    assert cluster.lock() is None
    os.close(first)
    assert not ClusterFolder(tmp_path / "never").is_live()
    assert not (tmp_path / "never").exists()


def test_up_keeps_the_latest_runs_of_all_names_together(tmp_path: Path) -> None:
    for index in range(KEPT_IN_ALL + 3):
        ended_runs(ClusterFolder(tmp_path / f"c{index}"), [index])
    prune_beyond_limit(tmp_path)
    assert {cluster.name for cluster in clusters(tmp_path)} == {
        f"c{index}" for index in range(3, KEPT_IN_ALL + 3)
    }
