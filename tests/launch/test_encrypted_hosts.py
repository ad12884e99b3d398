"""An encrypted run on hosts: nothing of it can be read on the way, and nobody else takes part."""

from __future__ import annotations

import pytest
from four_ways import in_all_four_ways

from beds.command import CommandBed, typed
from beds.hosts import HostBed
from beds.learning import DIGITS, is_learned

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


@in_all_four_ways()
def test_the_digits_are_learned(
    far: CommandBed, hosts: HostBed, replication: str, update: str
) -> None:
    how = typed(f"--encrypt --ps 2 --workers 4 --replication {replication} {update}")
    said = far.done("up", "-H", hosts.names, *how, DIGITS, "--set", f"data_dir={far.folder}/digits")
    assert is_learned(said), said
    addresses = [task.address or "" for task in far.status().tasks]
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert len(set(addresses)) == len(addresses)
    assert "is used, which takes more time" not in said  # psclust's own wire is forwarded, too
