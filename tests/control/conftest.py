"""Agents on two test hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from started_agents import Started, starting

from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed

hosts = hosts_of_file(2)


@pytest.fixture
def start(hosts: HostBed, tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts an agent on the first of them."""
    with starting(hosts, tmp_path) as start:
        yield start
