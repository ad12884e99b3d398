"""The benchmark of a client's loop, where a step begins while one is under way."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = [pytest.mark.tensorflow, pytest.mark.process, pytest.mark.long]


def test_a_client_that_begins_a_step_while_one_is_under_way_says_how_long_none_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import loop

    step_ms, between_ms = loop.measure("between-graph sync")
    assert 0 <= between_ms < step_ms
