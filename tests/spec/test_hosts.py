"""Host lists and hostfiles: every form, and every mistake with its whole message."""

from __future__ import annotations

import pytest

from psclust.errors import ClusterFileError
from psclust.spec.cluster import Host
from psclust.spec.host_lists import parse_hostfile, parse_hosts

GOOD = {
    "a": [Host("a")],
    "a,b:4": [Host("a"), Host("b", 4)],
    " a , b ": [Host("a"), Host("b")],
    "user@h:2": [Host("h", 2, "user")],
    "dom@in@h": [Host("h", None, "dom@in")],
    "10.0.0.1:2,host_1.example.com": [Host("10.0.0.1", 2), Host("host_1.example.com")],
    "h:1": [Host("h", 1)],
    "h:1023": [Host("h", 1023)],
    "h:1024": [Host("h", port=1024)],
    "h:22": [Host("h", port=22)],
    "h:65535": [Host("h", port=65535)],
    "h:2222 slots=4": [Host("h", 4, port=2222)],
    "h slots=4,i max-slots=3": [Host("h", 4), Host("i", 3)],
    "h slots = 2 max_slots = 8": [Host("h", 2)],
    "node[01-03]": [Host("node01"), Host("node02"), Host("node03")],
    "node[8-11]": [Host("node8"), Host("node9"), Host("node10"), Host("node11")],
    "node[1-2,7]:2": [Host("node1", 2), Host("node2", 2), Host("node7", 2)],
    "u@r[1-2]n[1-2]:2222": [
        Host(name, None, "u", 2222) for name in ("r1n1", "r1n2", "r2n1", "r2n2")
    ],
    "node[3].lan,b": [Host("node3.lan"), Host("b")],
    # A repeated plain name is a slot each time, and then every plain name is; names with slots keep
    # them.
    "a,a,b": [Host("a", 2), Host("b", 1)],
    "a,b:4,a": [Host("a", 2), Host("b", 4)],
    "u@a,u@a": [Host("a", 2, "u")],
    "n[1-2,2]": [Host("n1", 1), Host("n2", 2)],
}

BAD = {
    "": "names no host. Write for example: node1:4,node2:4",
    "a,,b": "a host is missing beside a comma; remove the comma or name the host.",
    "a:0": "'a:0': 0 slots leave no room for a task; give at least one slot or leave the host out.",
    "a:": (
        "'a:': no number stands after the colon; write slots (below 1024, "
        "as in host:4) or the SSH port."
    ),
    "a:x": (
        "'a:x': no number stands after the colon; write slots (below 1024, "
        "as in host:4) or the SSH port."
    ),
    "a:70000": (
        "'a:70000': 70000 is no port (they end at 65535); "
        "behind the colon stand slots below 1024 or the SSH port."
    ),
    "a:2:2222": "'a:2:2222': two numbers after the host; write host:port slots=N.",
    "a:4 slots=2": (
        "'a:4 slots=2': slots are given twice, as :4 (below 1024 it means slots) "
        "and as slots=2; keep one."
    ),
    "[::1]": "'[::1]': IPv6 addresses are not supported; give the host's name or its IPv4 address.",
    "fe80::1": (
        "'fe80::1': IPv6 addresses are not supported; give the host's name or its IPv4 address."
    ),
    "node[04-01]": "'node[04-01]': the range 04-01 runs backwards; write [01-04].",
    "node[1-3": "'node[1-3': the brackets do not match; write a range as node[01-04].",
    "node[]": "'node[]': '' is not a range; write numbers in the brackets, as in node[1-3,7].",
    "node[a-c]": (
        "'node[a-c]': 'a-c' is not a range; write numbers in the brackets, as in node[1-3,7]."
    ),
    "n[1-99999]": "'n[1-99999]': the range 1-99999 names more than 4096 hosts.",
    "n[1-70][1-70]": "'n[1-70][1-70]': the range names more than 4096 hosts.",
    "-oProxyCommand=x": (
        "'-oProxyCommand=x': '-oProxyCommand=x' is not a host's name; "
        "write a name or an IPv4 address."
    ),
    "-l@h": "'-l@h': '-l' is not a user's name; write user@host.",
    "@h": "'@h': '' is not a user's name; write user@host.",
    "u@": "'u@': the host's name is missing; write host, host:slots or user@host.",
    "4": "'4': a host's name is wanted here, not a number.",
    "slots=4": "'slots=4': there is no host before slots=4; write host slots=4.",
    "a\x1b[31m": "'a\\x1b[31m': the brackets do not match; write a range as node[01-04].",
    "a b": (
        "'a b': 'b' after the host is not understood; hosts are separated by commas, "
        "or stand on lines of their own in a hostfile."
    ),
    "a slot=2": "'a slot=2': unknown key 'slot'; did you mean slots?",
    "a gpus=2": "'a gpus=2': unknown key 'gpus'; the keys are slots and max_slots.",
    "a slots=0": "'a slots=0': slots is '0'; write a whole number, 1 or more.",
    "a slots=2 slots=3": "'a slots=2 slots=3': slots is given twice; keep one.",
    "a slots=4 max_slots=2": (
        "'a slots=4 max_slots=2': slots=4 is more than max_slots=2; lower slots."
    ),
    "a:2,a:3": "'a:3': a is listed already; name each host once, with all its slots: a slots=5",
    "a,a:2": "'a:2': a is listed already; name each host once, with all its slots: a slots=3",
    "u@a,v@a": "'v@a': a is listed already; name each host once, with all its slots: a slots=2",
}


@pytest.mark.parametrize("text", GOOD)
def test_a_host_list_is_read(text: str) -> None:
    assert parse_hosts(text, where="-H") == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_a_mistake_in_a_host_list_is_named(text: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        parse_hosts(text, where="-H")
    assert caught.value.problems == (f"-H: {BAD[text]}",)


def test_all_mistakes_of_a_list_come_at_once() -> None:
    with pytest.raises(ClusterFileError) as caught:
        parse_hosts("a:0,b,c[3-1],b:2", where="-H")
    assert [problem.split("'")[1] for problem in caught.value.problems] == ["a:0", "c[3-1]", "b:2"]


def test_a_hostfile_of_every_dialect_is_read() -> None:
    lines = [
        "# MPI and DeepSpeed",
        "node1 slots=4   # trailing",
        "",
        "  me@node2 slots=2 max_slots=4",
        "node3:2222",
        "node4:8",
    ]
    text = "\ufeff" + "\r\n".join([*lines, "node[5-6] max-slots=1", "plain"])
    assert parse_hostfile(text, where="hosts") == [
        Host("node1", 4),
        Host("node2", 2, "me"),
        Host("node3", port=2222),
        Host("node4", 8),
        Host("node5", 1),
        Host("node6", 1),
        Host("plain"),
    ]


def test_a_plain_name_on_several_lines_is_a_slot_each_time() -> None:
    assert parse_hostfile("a\nb\na\na\n", where="hosts") == [Host("a", 3), Host("b", 1)]


def test_all_mistakes_of_a_hostfile_come_at_once_with_their_lines() -> None:
    text = "a slots=2\nb,c\na slots=3\n# fine\nd slts=3\nnode[04-01]\nf:\na\n"
    with pytest.raises(ClusterFileError) as caught:
        parse_hostfile(text, where="hosts.txt")
    assert caught.value.problems == (
        "hosts.txt:2: 'b,c': more than one host on a line; give each its own line.",
        (
            "hosts.txt:3: 'a slots=3': a is listed already in hosts.txt:1; "
            "name each host once, with all its slots: a slots=5"
        ),
        "hosts.txt:5: 'd slts=3': unknown key 'slts'; did you mean slots?",
        "hosts.txt:6: 'node[04-01]': the range 04-01 runs backwards; write [01-04].",
        (
            "hosts.txt:7: 'f:': no number stands after the colon; write slots (below 1024, "
            "as in host:4) or the SSH port."
        ),
        (
            "hosts.txt:8: 'a': a is listed already in hosts.txt:1; "
            "name each host once, with all its slots: a slots=3"
        ),
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_a_hostfile_without_hosts_is_a_mistake(text: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        parse_hostfile(text, where="hosts.txt")
    assert caught.value.problems == (
        "hosts.txt: names no host. Write one a line, for example: node1 slots=4",
    )
