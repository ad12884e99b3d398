"""The chief's memory of who has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.train.between_graph.ended_replicas import EndedReplicas


def test_who_has_ended_is_remembered_by_the_next_process_of_the_run(tmp_path: Path) -> None:
    ended = EndedReplicas(tmp_path / "ended.json", "run 1")
    ended.become([2, 0])
    assert EndedReplicas(tmp_path / "ended.json", "run 1").numbers == {0, 2}
    assert EndedReplicas(tmp_path / "ended.json", "run 2").numbers == set()


def test_a_replica_that_trains_again_is_forgotten(tmp_path: Path) -> None:
    ended = EndedReplicas(tmp_path / "ended.json", "run 1")
    ended.become([0, 1])
    ended.become(ended.numbers - {0})
    assert ended.numbers == EndedReplicas(tmp_path / "ended.json", "run 1").numbers == {1}


def test_without_a_run_nothing_is_kept_on_disk(tmp_path: Path) -> None:
    EndedReplicas(tmp_path / "ended.json", None).become([1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"run": "run 1"}'])
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ended.json").write_text(text)
    assert EndedReplicas(tmp_path / "ended.json", "run 1").numbers == set()


def test_a_folder_that_cannot_be_written_does_not_stop_the_training(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = EndedReplicas(Path("/proc/nothing/ended.json"), "run 1")
    ended.become([1])
    assert ended.numbers == {1}
    assert "cannot be written" in caplog.text
