"""Fixtures that more than one folder of tests needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from beds.command import CommandBed
from psclust.testing.wait import wait_until

pytest_plugins = ["beds.crashed_workers"]

# Whoever runs the tests in the background may have them ignore what a terminal's keys send; what
# they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(_number, signal.SIG_DFL)

# Proxies, clusters, allocations, folders and a terminal's width in the environment are for the
# person who runs the tests, not for them.
for _name in [
    name
    for name in os.environ
    if name.lower().endswith("_proxy")
    or name.startswith(("PSCLUST_", "XDG_", "TF_", "SLURM_"))
    or name == "COLUMNS"
]:
    if _name not in (
        "PSCLUST_EXAMPLES",
        "PSCLUST_GOLDEN",
        "PSCLUST_SOAK_MINUTES",
        "TF_ENABLE_ONEDNN_OPTS",
    ):
        del os.environ[_name]


# Of each property; the same ones in each call unless a number is asked for.
_EXAMPLES = os.environ.get("PSCLUST_EXAMPLES")
settings.register_profile(
    "psclust",
    max_examples=int(_EXAMPLES or 50),
    derandomize=_EXAMPLES is None,
    deadline=None,
    database=None,
)
settings.load_profile("psclust")


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[CommandBed]:
    """A folder to run the real command in; the test fails when anything it started outlives it."""
    folder = tmp_path / "bed"
    folder.mkdir()
    bed = CommandBed(folder)
    yield bed
    try:
        wait_until(lambda: not bed.processes(), what="the end of everything that was started")
    except TimeoutError:
        pytest.fail(f"still alive after the test: {bed.end()}")
