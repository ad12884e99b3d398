"""Parses host lists: `a,b:4`, `user@h:2`, `node[01-04]`, and the hostfiles of MPI and DeepSpeed.
All share one grammar for a host or a range of hosts; an inline list separates them by commas, a
hostfile by lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, product, zip_longest
from math import prod

from psclust.errors import ClusterFileError
from psclust.spec.cluster import Host
from psclust.spec.port_range import LAST_PORT
from psclust.spec.problems import printable
from psclust.spec.whole_number import whole_number

# A number after the colon is slots below this (except 22), and an SSH port from it on: no machine
# takes a thousand tasks, and SSH servers on other ports than 22 rarely use a privileged one.
FIRST_PORT = 1024
SSH_PORT = 22
MAX_HOSTS = 4096

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_USER = re.compile(r"[^\s@:,\[\]-][^\s:,\[\]]*")
_OPTIONS = ("slots", "max_slots")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a host list and its position: text to parse, or a host that was written as a
    mapping."""

    where: str
    content: str | Host


def parse_hosts(text: str, *, where: str) -> list[Host]:
    """The hosts of an inline list such as `a,b:4`, `user@h:2` or `node[01-04,7]:2`.

    `:N` after a host is its slots if N is below 1024 and not 22, otherwise its SSH port. `slots=N`
    after the host allows both: `h:2222 slots=4`. A plain name that is repeated (`a,a,b`) counts one
    slot each time, as with mpirun, and then so does every other plain name of the list. Any other
    repetition is a mistake, and so are IPv6 addresses.
    Raises ClusterFileError with every mistake, one line each: `where: ...`."""
    if not text.strip():
        raise ClusterFileError([f"{where}: names no host. Write for example: node1:4,node2:4"])
    return _hosts_or_error([Piece(where, part) for part in split_list(text)])


def parse_hostfile(text: str, where: str) -> list[Host]:
    """The hosts of a hostfile: `host slots=4`, `user@host:port`, `host:4`, ranges; blank lines and
    `#` comments are skipped.

    The grammar and the rules are those of `parse_hosts`, with a line for each host in place of
    commas. `max_slots=N` (`max-slots=N`) is the number of slots where `slots=` is absent; where
    both are given, `slots` counts, because psclust never oversubscribes a host.
    Raises ClusterFileError with every mistake, one line each: `where:line: ...`."""
    lines = (
        (number, line.partition("#")[0].strip())
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1)
    )
    pieces = [Piece(f"{where}:{number}", line) for number, line in lines if line]
    if not pieces:
        raise ClusterFileError(
            [f"{where}: names no host. Write one a line, for example: node1 slots=4"]
        )
    return _hosts_or_error(pieces)


def split_list(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    return re.split(r",(?![^\[]*\])", text)


def read_pieces(pieces: Sequence[Piece]) -> tuple[list[Host], dict[int, str]]:
    """The hosts of all pieces together, each host once, and the mistakes: index of a piece -> what
    is wrong with it."""
    mentions: list[tuple[int, Host]] = []
    wrong: dict[int, str] = {}
    for index, piece in enumerate(pieces):
        try:
            mentions += [(index, host) for host in _read(piece.content)]
        except ValueError as error:
            shown = _quoted(piece)
            wrong[index] = f"{shown}: {error}" if shown != "''" else str(error)
    hosts, repeated = _settle(mentions, pieces)
    return hosts, dict(sorted((wrong | repeated).items()))


def _hosts_or_error(pieces: list[Piece]) -> list[Host]:
    hosts, wrong = read_pieces(pieces)
    if wrong:
        raise ClusterFileError(
            printable(f"{pieces[index].where}: {text}") for index, text in wrong.items()
        )
    return hosts


def _quoted(piece: Piece) -> str:
    text = piece.content.name if isinstance(piece.content, Host) else piece.content.strip()
    return f"'{text[:60]}'"


def _read(content: str | Host) -> list[Host]:
    """The hosts of one entry. Raises ValueError with what is wrong and what to do; the caller adds
    the entry."""
    if isinstance(content, Host):
        if re.search(r"[@:]", content.name):
            raise ValueError(
                "in a mapping, user, slots and port have keys of their own; "
                "leave only the host in name."
            )
        return [replace(content, name=name) for name in _expand(content.name)]
    if len(split_list(content)) > 1:
        raise ValueError("more than one host on a line; give each its own line.")
    words = re.sub(r"\s*=\s*", "=", content).split()
    if not words:
        raise ValueError("a host is missing beside a comma; remove the comma or name the host.")
    if words[0].partition("=")[0] in _OPTIONS:
        raise ValueError(f"there is no host before {words[0]}; write host {words[0]}.")
    host = _read_address(words[0])
    options = _read_options(words[1:])
    slots = options.get("slots", options.get("max_slots"))
    if slots is not None and host.slots is not None:
        raise ValueError(
            f"slots are given twice, as :{host.slots} (below {FIRST_PORT} it means slots) "
            f"and as slots={slots}; keep one."
        )
    return [
        replace(host, name=name, slots=host.slots if slots is None else slots)
        for name in _expand(host.name)
    ]


def _read_address(text: str) -> Host:
    """`[user@]range[:N]`, with the range still in the name."""
    user, at, rest = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise ValueError(f"'{user}' is not a user's name; write user@host.")
    if re.search(r"::|\[[^\]]*:|:[^:]*:[^:]*:", rest):
        raise ValueError(
            "IPv6 addresses are not supported; give the host's name or its IPv4 address."
        )
    name, colon, number = rest.rpartition(":") if re.search(r":[^\]]*$", rest) else (rest, "", "")
    if ":" in name:
        raise ValueError("two numbers after the host; write host:port slots=N.")
    if not name:
        raise ValueError("the host's name is missing; write host, host:slots or user@host.")
    return Host(name, user=user or None, **(_read_number(number) if colon else {}))


def _read_number(text: str) -> dict[str, int]:
    number = whole_number(text)
    if number is None:
        raise ValueError(
            f"no number stands after the colon; write slots (below {FIRST_PORT}, as in host:4) or "
            "the SSH port."
        )
    if number == 0:
        raise ValueError(
            "0 slots leave no room for a task; give at least one slot or leave the host out."
        )
    if number > LAST_PORT:
        raise ValueError(
            f"{number} is no port (they end at {LAST_PORT}); "
            f"behind the colon stand slots below {FIRST_PORT} or the SSH port."
        )
    return {"slots": number} if number < FIRST_PORT and number != SSH_PORT else {"port": number}


def _read_options(words: list[str]) -> Mapping[str, int]:
    options: dict[str, int] = {}
    for word in words:
        key, equals, value = word.partition("=")
        name = key.replace("-", "_").lower()
        if not equals:
            raise ValueError(
                f"'{word}' after the host is not understood; hosts are separated by commas, "
                "or stand on lines of their own in a hostfile."
            )
        if name not in _OPTIONS:
            near = get_close_matches(name, _OPTIONS, 1)
            raise ValueError(
                f"unknown key '{key}'; "
                f"{f'did you mean {near[0]}?' if near else 'the keys are slots and max_slots.'}"
            )
        if name in options:
            raise ValueError(f"{key} is given twice; keep one.")
        number = whole_number(value)
        if not number:
            raise ValueError(f"{key} is '{value}'; write a whole number, 1 or more.")
        options[name] = number
    if options.get("slots", 0) > options.get("max_slots", MAX_HOSTS):
        raise ValueError(
            f"slots={options['slots']} is more than max_slots={options['max_slots']}; lower slots."
        )
    return options


def _expand(text: str) -> list[str]:
    """`node[01-03,7]` as node01, node02, node03, node7; several brackets multiply. Raises
    ValueError."""
    parts = re.split(r"\[([^\[\]]*)\]", text)
    fixed, ranges = parts[::2], parts[1::2]
    if any(set("[]") & set(part) for part in fixed):
        raise ValueError("the brackets do not match; write a range as node[01-04].")
    if not _NAME.fullmatch("0".join(fixed)):
        raise ValueError(f"'{text}' is not a host's name; write a name or an IPv4 address.")
    if not ranges and text.isdigit():
        raise ValueError("a host's name is wanted here, not a number.")
    numbers = [
        [number for part in inside.split(",") for number in _numbers(part)] for inside in ranges
    ]
    if prod(map(len, numbers)) > MAX_HOSTS:
        raise ValueError(f"the range names more than {MAX_HOSTS} hosts.")
    return [
        "".join(chain.from_iterable(zip_longest(fixed, choice, fillvalue="")))
        for choice in product(*numbers)
    ]


def _numbers(text: str) -> list[str]:
    match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", text, re.ASCII)
    if match is None:
        raise ValueError(
            f"'{text}' is not a range; write numbers in the brackets, as in node[1-3,7]."
        )
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise ValueError(f"the range {low}-{high} runs backwards; write [{high}-{low}].")
    if int(high) - int(low) >= MAX_HOSTS:
        raise ValueError(f"the range {low}-{high} names more than {MAX_HOSTS} hosts.")
    width = len(low) if low.startswith("0") else 0
    return [str(number).zfill(width) for number in range(int(low), int(high) + 1)]


def _settle(
    mentions: Sequence[tuple[int, Host]], pieces: Sequence[Piece]
) -> tuple[list[Host], dict[int, str]]:
    """One host a name: plain repetitions are counted as slots, others are mistakes, one for each
    piece."""
    first: dict[str, tuple[int, Host]] = {}
    times: dict[str, int] = {}
    wrong: dict[int, str] = {}
    for index, host in mentions:
        earlier, known = first.setdefault(host.name, (index, host))
        times[host.name] = times.get(host.name, 0) + 1
        if times[host.name] > 1 and not (host == known and host.slots is None):
            wrong.setdefault(index, _repetition(pieces[earlier], pieces[index], known, host))
    counting = any(count > 1 for count in times.values())
    hosts = [
        replace(host, slots=times[name]) if counting and host.slots is None else host
        for name, (_, host) in first.items()
    ]
    return hosts, wrong


def _repetition(first: Piece, again: Piece, known: Host, host: Host) -> str:
    slots = (known.slots or 1) + (host.slots or 1)
    where = "" if first.where == again.where else f" in {first.where}"
    return (
        f"{_quoted(again)}: {host.name} is listed already{where}; "
        f"name each host once, with all its slots: {host.name} slots={slots}"
    )
