"""`psclust --version`: which psclust, Python and TensorFlow a run here gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from psclust import __version__
from psclust.reach.python.on_host.facts import version_of


def versions() -> Iterator[str]:
    """A line each. TensorFlow is looked up, not imported."""
    yield f"psclust {__version__}"
    yield f"Python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    found = version_of("tensorflow")
    yield (
        f"TensorFlow {found}, for tasks"
        if found is not None
        else "no TensorFlow beside it: name a Python that has one for tasks (--python, `python:`)"
    )
