"""What a barrier wants done, in the order of its answer; the chief's coordinator does it. `Update`,
in `messages`, is one more."""

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
    """Empty the accumulators of the sums, which then refuse gradients older than `round`. blocked:
    replicas may be waiting in an all-reduce of an older round, and taking from its accumulators
    would wait behind them; leave those filled."""

    round: int
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class DropMessages:
    """Throw away the messages that are waiting."""


@dataclass(frozen=True, slots=True)
class Release:
    """Let the replicas go on that wait in an all-reduce."""

    round: int


@dataclass(frozen=True, slots=True)
class CountGradients:
    """Answer with `Barrier.counted` whether every accumulator holds exactly `expected`
    gradients."""

    expected: int


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
    """Push a gradient of zero, over no examples, of each of the `workers` for each variable of the
    stream of `round`."""

    round: int
    workers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RollBack:
    """When the stream of `round` has ended, give all variables back the values they had before
    it."""

    round: int


Action: TypeAlias = (
    Send
    | Reset
    | DropMessages
    | Release
    | CountGradients
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
