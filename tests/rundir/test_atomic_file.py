"""Files that are replaced in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.rundir.atomic_file import replacing, write_atomically


def test_an_atomic_write_that_fails_leaves_the_old_text_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half a surrogate \ud800")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.json"]


def test_a_file_shows_its_new_content_only_when_that_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    with replacing(path) as aside:
        aside.write_text("one\n")
        assert not path.exists()
    assert path.read_text() == "one\n"
    with pytest.raises(UnicodeEncodeError), replacing(path) as aside:
        aside.write_text("half a surrogate \ud800", encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["predictions.jsonl"]
    assert path.read_text() == "one\n"
