import resource
from collections.abc import Callable

import pytest

from psclust.runtime.roomy_frames import in_one_chunk

_DEEPEST = 400
_TIMES = 50


def test_calls_inside_cost_no_pages() -> None:
    _swing()
    assert in_one_chunk(lambda: _faults_of(_swing)) < _DEEPEST


def test_results_and_errors_pass() -> None:
    assert in_one_chunk(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        in_one_chunk(lambda: 1 // 0)


def _faults_of(work: Callable[[], None]) -> int:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def _swing() -> None:
    """Goes back and forth across every depth, and so across the end of every chunk of frames."""
    for depth in range(_DEEPEST):
        _down(depth)


def _down(depth: int) -> None:
    if depth:
        _down(depth - 1)
        return
    for _ in range(_TIMES):
        _leaf(0, 0, 0, 0)


def _leaf(a: int, b: int, c: int, d: int) -> int:
    return a + b + c + d
