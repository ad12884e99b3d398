"""A run on disk."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from psclust.rundir.folder import KEPT_RUNS, ClusterFolder, RunFolder, clusters, state_root
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.rundir.task_progress import Progress


@pytest.mark.parametrize(
    ("environ", "given", "root"),
    [
        ({"HOME": "/h"}, None, "/h/.local/state/psclust"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x"}, None, "/x/psclust"),
        ({"HOME": "/h", "PSCLUST_STATE": "/p"}, None, "/p"),
        ({"PSCLUST_STATE": "/p"}, "/given", "/given"),
        ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, None, "/h/.local/state/psclust"),
    ],
)
def test_where_runs_live(environ: dict[str, str], given: str | None, root: str) -> None:
    assert state_root(environ, given) == Path(root)


def test_only_one_may_hold_a_cluster(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    assert not cluster.is_live()
    held = cluster.lock()
    assert held is not None
    assert cluster.lock() is None
    assert cluster.is_live()
    os.close(held)
    assert not cluster.is_live()


def test_a_new_run_is_current_private_and_old_ones_go(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    runs = [cluster.new_run() for _ in range(KEPT_RUNS + 2)]
    assert cluster.current() == runs[-1]
    assert len(cluster.runs()) == KEPT_RUNS
    assert (tmp_path / "one" / runs[-1].id).stat().st_mode & 0o077 == 0
    assert [entry.name for entry in clusters(tmp_path)] == ["one"]


def test_a_socket_in_a_very_deep_folder_still_has_an_address(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["folder-of-a-user-who-likes-long-names"] * 4)
    run = ClusterFolder(deep).new_run()
    address = run.socket_address().removeprefix("unix:")
    assert len(address) < 100
    Path(address).write_text("here")
    assert run.socket.read_text() == "here"


def test_a_status_survives_the_way_through_json() -> None:
    task = TaskStatus(
        "ps:0", "server", "running", "localhost", "127.0.0.1:1", 7, 1, 0, None, 1.5, "/log"
    )
    status = RunStatus(
        "name", "run", "/folder", "live", 9, 1.0, (task,), notes=("note",), cause_tail=("line",)
    )
    assert RunStatus.from_json(status.to_json()) == status


def test_a_progress_record_survives_the_way_through_json() -> None:
    progress = Progress(3, 0.5, phase="train", metrics={"accuracy": 0.9})
    assert Progress.from_json(progress.to_json()) == progress
    assert Progress.from_json('{"phase": "serving", "new": 1}') == Progress(phase="serving")


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_broken_progress_record_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Progress.from_json(text)


def test_a_run_begun_after_the_clock_went_back_is_still_the_last(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "one")
    ahead = RunFolder(cluster.path / "20991231-235959-0000017f")
    ahead.create()
    runs = [cluster.new_run() for _ in range(KEPT_RUNS)]
    assert cluster.runs() == runs
    assert cluster.current() == runs[-1]


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_is_set_while_a_run_is_live_changes_no_duration(jump: float) -> None:
    began = time.time() - jump - 5
    live = RunStatus(
        "name", "run", "/folder", "live", 9, began, clock=time.time() - time.monotonic() - jump
    )
    assert live.age(began) == pytest.approx(5, abs=2)
    ended = replace(live, phase="ended")
    assert ended.age(began) == pytest.approx(max(0.0, 5 + jump), abs=2)
