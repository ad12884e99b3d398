"""Which runs on hosts are encrypted by default, and why others are not."""

from __future__ import annotations

from typing import Any

import pytest

from psclust.plan.cluster_layout import lay_out
from psclust.plan.encryption import is_encrypted, open_because
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile


def _file(**keys: Any) -> ClusterFile:
    hosts = [Host("a", slots=4), Host("b", slots=4)]
    given = {"name": "t", "hosts": hosts, "jobs": {"ps": 2, "worker": 2}, **keys}
    return ClusterFile.model_validate(given, strict=False)


def _why(**keys: Any) -> str | None:
    file = _file(**keys)
    return open_because(file, lay_out(file))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"ports": "2300-2399"},
        {"ports": "2300-2305"},  # four tasks, an agent and a forwarder
        {"jobs": {"ps": {"count": 2, "ports": "2200"}, "worker": {"count": 2, "ports": "2300"}}},
        {"jobs": {"ps": {"count": 2, "ports": "2200-2201"}, "worker": 2}},
    ],
)
def test_each_task_has_an_address_that_is_the_same_everywhere(keys: dict[str, Any]) -> None:
    assert _why(**keys) is None


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"admit": ["10.0.0.7"]}, "`admit` lets others connect to tasks"),
        (
            {"jobs": {"ps": {"count": 1, "addresses": ["a:2222"]}, "worker": 1}},
            "jobs.ps has `addresses` of its own",
        ),
        ({"ports": "2222"}, "`ports` gives ps:0 and worker:0 the same port"),
        ({"ports": "2300-2304"}, "`ports: 2300-2304` has no port for each task alone"),
        (
            {"jobs": {"ps": {"count": 2, "ports": "2200-2200"}, "worker": 2}},
            "`ports: 2200-2200` has no port for each task alone",
        ),
    ],
)
def test_or_the_run_is_in_the_open(keys: dict[str, Any], why: str) -> None:
    assert _why(**keys) == why


@pytest.mark.parametrize("encrypt", [True, False])
def test_what_the_file_says_comes_first(encrypt: bool) -> None:
    file = _file(encrypt=encrypt, ports="2222")
    assert is_encrypted(file, lay_out(file)) == encrypt
