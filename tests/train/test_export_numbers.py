"""The number of an exported model: whoever serves models takes the highest."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow


def test_a_model_exported_after_the_clock_went_back_has_the_highest_number(tmp_path: Path) -> None:
    from psclust.train.offline.saved_model import numbered

    for name in ("99999999999", "not-a-number"):
        (tmp_path / name).mkdir()
    aside = tmp_path / ".new"
    aside.mkdir()
    assert numbered(aside, tmp_path) == tmp_path / "100000000000"
