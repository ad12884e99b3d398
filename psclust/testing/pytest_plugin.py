"""The fixture `psclust_cluster` for tests of those who use psclust; installed with it, as a plugin
of pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from psclust.api.local_cluster import LocalCluster


@pytest.fixture
def psclust_cluster() -> Iterator[Callable[..., LocalCluster]]:
    """Starts a `psclust.LocalCluster` with the arguments given, which ends with the test: `cluster
    = psclust_cluster(ps=2, workers=2)`."""
    from psclust.api.local_cluster import LocalCluster

    with ExitStack() as clusters:
        yield lambda *counts, **options: clusters.enter_context(LocalCluster(*counts, **options))
