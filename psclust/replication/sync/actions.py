"""The actions of a barrier, which the chief's coordinator carries out one after another. `Update`,
in `messages`, is an action as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from psclust.replication.sync.messages import Token, Update


@dataclass(frozen=True, slots=True)
class Send:
    """Send each worker its token now."""

    tokens: Mapping[int, Token]


@dataclass(frozen=True, slots=True)
class Reset:
    """Empty the accumulators, which then refuse gradients of rounds before `round`. blocked:
    replicas may be waiting in an all-reduce of an older round: let them go on. Its accumulators are
    not emptied then, since to take from them would wait behind those replicas."""

    round: int
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Let the replicas go on that wait in an all-reduce."""

    round: int


@dataclass(frozen=True, slots=True)
class Left:
    """Record that the worker has ended its training; its STOP token follows."""

    worker: int


@dataclass(frozen=True, slots=True)
class Warn:
    """Log a warning."""

    text: str


@dataclass(frozen=True, slots=True)
class Collect:
    """Backup workers: add the worker's gradient, which is complete, to the sums of `round`."""

    worker: int
    round: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Backup workers: throw away the worker's gradient, which is complete."""

    worker: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Backup workers: empty the worker's own accumulators, which then refuse gradients older than
    `round`."""

    worker: int
    round: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Begin to update the variables of `round`, each when the gradients of all `members` for it
    have arrived."""

    round: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """On behalf of each of the `workers`, push a gradient of zero, over no examples, for every
    variable of the stream of `round`."""

    round: int
    workers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RollBack:
    """End the stream of `round` as `Fill` does, then restore the values that the variables had
    before it."""

    round: int
    workers: tuple[int, ...]


Action: TypeAlias = (
    Send
    | Reset
    | Release
    | Left
    | Warn
    | Collect
    | Discard
    | Clear
    | Stream
    | Fill
    | RollBack
    | Update
)
