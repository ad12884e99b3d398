"""Fixtures with the hosts of a bed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from beds.hosts import HostBed, host_bed


def hosts_of_file(names: int | Sequence[str], *, isolated: bool | None = None) -> Any:
    """A fixture: hosts as of `host_bed`, the same ones for all tests of a file. Assign it to the
    name by which those ask for it."""

    @pytest.fixture(scope="module")
    def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
        with host_bed(tmp_path_factory.mktemp("bed") / "hosts", names, isolated=isolated) as hosts:
            yield hosts

    return hosts
