"""The table of ways to reach hosts, and what the rest needs of a way."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import get_args

import pytest

from psclust.reach.python.host_facts import gather_facts
from psclust.reach.python.local_process import LocalProcess
from psclust.reach.ways import WAYS
from psclust.spec.cluster import Host
from psclust.spec.key_types import ReachBy


def test_every_way_that_a_cluster_file_may_name_is_in_the_table() -> None:
    assert set(WAYS) == set(get_args(ReachBy))
    for way in WAYS.values():
        assert callable(way().connect)
        assert callable(way().open_tunnel)
        assert callable(way().tunnel_settings)
        assert way().find_hosts({}, asked=False) is None
    assert {word for word, way in WAYS.items() if way().MAY_BE_HERE} == {"ssh"}
    assert {word for word, way in WAYS.items() if way().batch_system()} == {"slurm"}
    assert {word for word, way in WAYS.items() if way().host_maker()} == {"kubernetes"}


class Here:
    """Hosts that are this machine, each command a child of ours with pipes: all that `srun` or
    `kubectl exec` give."""

    way = "a shell here"
    hosts: Sequence[Host] = (Host("a"), Host("b"))
    names: Sequence[str] = ("a", "b")
    failures: Mapping[str, str] = {}

    def start(
        self, host: str, command: str, purpose: str, *, outlived: bool = False
    ) -> LocalProcess:
        return LocalProcess(["sh", "-c", command], purpose)

    def address_of(self, host: str) -> str | None:
        return None


@pytest.mark.process
def test_pipes_to_a_process_on_each_host_are_enough_to_ask_it() -> None:
    facts = gather_facts(Here(), sys.executable)
    assert {host: each.executable for host, each in facts.items()} == dict.fromkeys(
        ("a", "b"), sys.executable
    )
