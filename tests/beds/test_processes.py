"""Processes whose numbers are given again."""

from __future__ import annotations

import subprocess

import pytest

from beds.processes import running

pytestmark = pytest.mark.process


def test_a_process_that_has_ended_is_not_the_one_that_has_its_number_now() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            found = running(other)
            assert found is not None
            assert found.pid == other.pid
            ended.pid = other.pid
            assert running(ended) is None
        finally:
            other.kill()
    assert running(other) is None
