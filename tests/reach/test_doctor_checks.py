"""What facts about hosts mean: by table, without a host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psclust.errors import StartError
from psclust.reach import doctor
from psclust.reach.doctor.finding import Finding, refuse_problems
from psclust.reach.doctor.quick_checks import QUICK_CHECKS, quick
from psclust.reach.doctor.thorough_checks import (
    THOROUGH_CHECKS,
    Surroundings,
    thorough,
)
from psclust.reach.python.host_facts import HostFacts

GOOD = HostFacts(
    host="a",
    executable="/usr/bin/python3",
    version="3.11.7",
    tensorflow="2.21.0",
    psclust="",
    psclust_version="0.1.0",
    missing=(),
    machine="x86_64",
    home="/home/me",
    cache="/home/me/.cache/psclust",
    state="/home/u/.local/state/psclust",
    disks={"/home/u/.local/state/psclust": 50_000_000_000},
    memory_free=8_000_000_000,
    memory=16_000_000_000,
    address="10.0.0.1",
    shared=True,
    clock=0.01,
    clock_error=0.02,
)
CHECKED = Surroundings(
    host="a",
    address="10.0.0.1",
    names={"a": "10.0.0.1", "b": "10.0.0.2"},
    proxies=(),
    gpus=(),
    visible=None,
    interfaces={"lo": "127.0.0.1", "eth0": "10.0.0.1"},
    shim="127.0.0.1",
    firewall=True,
    congestion="bbr",
    cubic=True,
    build="e72f3a58b80fe0f2",
    fit="24,0,168",
    c_library=True,
)
ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2"}


def odd(*hosts: HostFacts) -> list[str]:
    """What is not well, in a line each."""
    return [shown(finding) for finding in quick(hosts) if finding.level != "ok"]


def shown(finding: Finding) -> str:
    return (
        f"{finding.level} {finding.host} {finding.check}: {finding.text}. {finding.remedy}".rstrip()
    )


def test_equal_hosts_are_well() -> None:
    hosts = [replace(GOOD, host=name) for name in "abc"]
    assert odd(*hosts) == []
    assert {finding.host for finding in quick(hosts)} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            {"version": "3.10.2"},
            (
                "problem c python: Python 3.10.2, elsewhere 3.11.7 (/usr/bin/python3). "
                "Install the same one everywhere, or name one that all have under `python:`."
            ),
        ),
        (
            {"tensorflow": None},
            (
                "problem c tensorflow: no TensorFlow for /usr/bin/python3. Run there: "
                "/usr/bin/python3 -m pip install 'tensorflow==2.21.0'"
            ),
        ),
        (
            {"tensorflow": "2.20.1"},
            (
                "problem c tensorflow: TensorFlow 2.20.1, elsewhere 2.21.0. Versions must be "
                "equal. Run there: /usr/bin/python3 -m pip install 'tensorflow==2.21.0'"
            ),
        ),
        (
            {"missing": ("grpcio>=1.49",)},
            (
                "problem c packages: /usr/bin/python3 lacks grpcio>=1.49. Run there: "
                "/usr/bin/python3 -m pip install 'grpcio>=1.49'"
            ),
        ),
        (
            {"disks": {"/var/runs": 300_000_000}},
            "note c disk: 0.3 GB free in /var/runs. Make room: logs and checkpoints need it.",
        ),
        (
            {"disks": {"/var/runs": 50_000_000_000, GOOD.cache: 300_000_000}},
            (
                "note c disk: 0.3 GB free in /home/me/.cache/psclust. Make room: "
                "what is sent there needs it."
            ),
        ),
        (
            {"memory_free": 200_000_000},
            "note c memory: 0.2 GB free of 16 GB. A task that gets none is killed.",
        ),
        (
            {"clock": -5.0},
            "note c clock: 5 s behind this machine's. Set it: chronyd or timedatectl set-ntp true.",
        ),
        (
            {"clock": 3600.0},
            (
                "note c clock: 3600 s ahead of this machine's. Set it: "
                "chronyd or timedatectl set-ntp true."
            ),
        ),
    ],
)
def test_a_host_that_differs_is_told_with_its_cure(other: dict[str, object], expected: str) -> None:
    third = replace(GOOD, host="c", **other)  # type: ignore[arg-type]
    assert odd(GOOD, replace(GOOD, host="b"), third) == [expected]


@pytest.mark.parametrize(
    "other",
    [
        {"version": "3.11.2"},
        {"psclust": None, "psclust_version": None},
        {"clock": 4.0, "clock_error": 3.0},
        {"memory_free": None},
    ],
)
def test_what_does_no_harm_is_not_told(other: dict[str, object]) -> None:
    assert odd(GOOD, replace(GOOD, host="b", **other)) == []  # type: ignore[arg-type]


def test_of_two_hosts_that_disagree_the_older_one_is_to_change() -> None:
    assert [
        line[:22]
        for line in odd(
            replace(GOOD, tensorflow="2.9.0"), replace(GOOD, host="b", tensorflow="2.21.0")
        )
    ] == ["problem a tensorflow: "]


@pytest.mark.parametrize(
    "version", ["2.15.1", "2.21.0", "2.99.0.dev20270101", "of unknown version"]
)
def test_one_tensorflow_everywhere_is_well(version: str) -> None:
    assert odd(replace(GOOD, tensorflow=version)) == []


def test_an_older_tensorflow_everywhere_is_only_a_note() -> None:
    assert odd(replace(GOOD, tensorflow="2.14.1")) == [
        "note a tensorflow: TensorFlow 2.14.1; psclust is made for 2.15 and later, and was never "
        "tried with it."
    ]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, []),
        ({"address": "127.0.0.1", "firewall": False}, []),
        (
            {"firewall": False},
            [
                (
                    "note a exposure: 10.0.0.1 (eth0), no firewall: anyone who reaches it can run "
                    "code in the cluster's servers. Let only the cluster's hosts reach its ports."
                )
            ],
        ),
        (
            {"firewall": None, "address": "8.8.8.8", "interfaces": {"eth0": "8.8.8.8"}},
            [
                (
                    "note a exposure: 8.8.8.8 (eth0), a firewall only root could see: anyone "
                    "who reaches it from the internet can run code in the cluster's servers. "
                    "Let only the cluster's hosts reach its ports."
                )
            ],
        ),
        (
            {"address": "10.9.9.9"},
            [
                (
                    "note a exposure: 10.9.9.9 is on none of its interfaces. "
                    "Others must reach it by an address of its own: name one as the host."
                )
            ],
        ),
        (
            {"shim": None},
            [
                (
                    "problem a server shim: no server shim for this machine: "
                    "servers would listen on every interface (lo 127.0.0.1, eth0 10.0.0.1), "
                    "to everybody, "
                    "and sessions never notice a host that is cut off. Install gcc, "
                    "and psclust again, there or here; or close the ports by a firewall."
                ),
                (
                    "note a kernels: psclust's kernels and its own wire are not built for this "
                    "machine: TensorFlow's ops and wire are used, which take more time and CPU. "
                    "Install gcc, and psclust again, there or here."
                ),
            ],
        ),
        (
            {"names": {"a": "127.0.1.1", "b": None}},
            [
                (
                    "note a names: does not know the name b. "
                    "It matters only to programs that use names: add it to /etc/hosts or DNS."
                ),
                (
                    "note a names: takes a 127.0.1.1, not 10.0.0.1. "
                    "It matters only to programs that use names: add it to /etc/hosts or DNS."
                ),
            ],
        ),
        ({"fit": None}, []),
        ({"build": None, "fit": None, "c_library": False}, []),
        (
            {"c_library": False},
            [
                (
                    "note a fork server: this TensorFlow has no libtensorflow_cc.so.2: each server "
                    "imports TensorFlow, which takes seconds and memory. All of it fits what "
                    "`pip install tensorflow` brings."
                )
            ],
        ),
        (
            {"fit": "kernels"},
            [
                (
                    "note a kernels: psclust's kernels fit build e72f3a58b80fe0f2 of TensorFlow, "
                    "its own wire does not: TensorFlow's wire is used, which takes more time and "
                    "CPU. All of it fits what `pip install tensorflow` brings."
                )
            ],
        ),
        (
            {"fit": "nothing"},
            [
                (
                    "note a kernels: psclust's kernels and its own wire do not fit build "
                    "e72f3a58b80fe0f2 of TensorFlow: TensorFlow's ops and wire are used, which "
                    "take more time and CPU. All of it fits what `pip install tensorflow` brings."
                )
            ],
        ),
        (
            {"proxies": ["http_proxy"]},
            [
                (
                    "note a proxies: http_proxy set. "
                    "The cluster's own traffic never takes a proxy; a program's may."
                )
            ],
        ),
    ],
)
def test_what_a_closer_look_shows(other: dict[str, object], expected: list[str]) -> None:
    found = thorough([replace(CHECKED, **other)], ADDRESSES)  # type: ignore[arg-type]
    assert [shown(finding) for finding in found if finding.level != "ok"] == expected


def test_a_public_address_without_a_firewall_is_a_problem() -> None:
    found = thorough(
        [replace(CHECKED, address="8.8.8.8", interfaces={"eth0": "8.8.8.8"}, firewall=False)],
        ADDRESSES,
    )
    assert [finding.check for finding in found if finding.level == "problem"] == ["exposure"]


def test_gpus_are_counted_by_kind() -> None:
    found = thorough(
        [replace(CHECKED, gpus=["A100, 81920 MiB"] * 4 + ["T4, 16384 MiB"])], ADDRESSES
    )
    assert [finding.text for finding in found if finding.check == "gpus"] == [
        "4 x A100, 81920 MiB, 1 x T4, 16384 MiB"
    ]
    found = thorough([replace(CHECKED, gpus=["A100, 81920 MiB"] * 4, visible="2,3")], ADDRESSES)
    assert [finding.text for finding in found if finding.check == "gpus"] == [
        "4 x A100, 81920 MiB; tasks see 2,3 (CUDA_VISIBLE_DEVICES)"
    ]


@pytest.mark.parametrize(
    ("congestion", "cubic", "expected"),
    [
        ("cubic", True, "ok a congestion: cubic."),
        ("cubic", False, "ok a congestion: cubic."),
        ("bbr", True, "ok a congestion: bbr; psclust's own wire uses cubic."),
        ("reno", False, "ok a congestion: reno; cubic is not allowed."),
        (
            "bbr",
            False,
            "note a congestion: bbr, and cubic is not allowed: a step over a shared link takes "
            "5 to 10 % longer. Run there, as root: "
            'sysctl net.ipv4.tcp_allowed_congestion_control="reno cubic bbr"',
        ),
        (None, True, None),
    ],
)
def test_a_host_says_how_its_connections_share_a_link(
    congestion: str | None, cubic: bool, expected: str | None
) -> None:
    found = thorough([replace(CHECKED, congestion=congestion, cubic=cubic)], ADDRESSES)
    said = next((shown(finding) for finding in found if finding.check == "congestion"), None)
    assert said == expected


def test_problems_stop_a_start_and_notes_do_not() -> None:
    refuse_problems([Finding("a", "disk", "note", "little"), Finding("a", "python", "ok", "3.11")])
    with pytest.raises(StartError) as caught:
        refuse_problems(
            [
                Finding("a", "x", "problem", "found this", "Do that."),
                Finding("b", "x", "note", "n"),
                Finding("c", "y", "problem", "that"),
            ]
        )
    assert str(caught.value) == "a: found this. Do that.\nc: that."


def test_the_room_lists_every_check() -> None:
    listed = (doctor.__doc__ or "").replace(";", ",")
    assert ", ".join(QUICK_CHECKS) in listed
    assert ", ".join([*THOROUGH_CHECKS, "network"]) in listed
