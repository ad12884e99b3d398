"""The barrier of synchronous between-graph training, as a pure transition table: messages in, tokens out.

Why not TensorFlow's `SyncReplicasOptimizer`: it counts gradients, not workers, so a fast worker may fill a slow one's place and a worker
that ends its data leaves the rest waiting for gradients nobody will send. Here every worker has a name.

A *round* is one attempt at one global step. A worker holds a token for the round, pushes exactly one gradient under the round's number,
then sends a message and waits for its next token. The chief applies the mean when every worker that has not left has sent its
message. Rounds only grow, also across restarts of the chief (they start from the clock), and accumulators refuse a gradient with an older
number, so whatever arrives late counts for nothing.

Who comes back is known by a new *incarnation*. A worker that dies in the middle of a round may have pushed part of its gradient; its
successor is *unsure* until all others have delivered and the accumulators show whether a part is there. If so, the round is void and
everybody computes the step again; if not, the successor simply gets the token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What a message or a token says."""

    JOIN = 0  # worker: I am here and hold no token
    GRADIENT = 1  # worker: my gradient of this round is complete
    LEAVE = 2  # worker: I have ended my training
    GO = 3  # chief: compute a gradient for this round
    STOP = 4  # chief: the training is over, leave; or: you have left
    RESYNC = 5  # chief: a new barrier is here; join it, unless you hold a token at least this new
    LATE = 6  # chief: your gradient came too late and was dropped; compute one for this round


@dataclass(frozen=True, slots=True)
class Message:
    """Worker to chief; on the wire an int64 vector in this order of fields."""

    kind: Kind
    worker: int
    incarnation: int
    round: int
    examples: int


@dataclass(frozen=True, slots=True)
class Token:
    """Chief to `worker`; on the wire int64 [kind, incarnation, round, step], in the worker's own queue."""

    worker: int
    kind: Kind
    incarnation: int
    round: int


class Barrier:
    """Who is awaited in the current round. `workers` are those that have not ended their training; `first_round` is greater than any
    round of an earlier barrier."""

    def __init__(self, workers: Iterable[int], first_round: int) -> None:
        self.round = first_round
        self.stopping = False
        self._expected = set(workers)
        self._incarnations: dict[int, int] = {}
        self._unsure: set[int] = set()
        self._examples: dict[int, int] = {}

    @property
    def awaited(self) -> Collection[int]:
        """The workers whose message the round still needs; at least this many messages will come."""
        return self._expected - self._examples.keys() - self._unsure

    @property
    def unsure(self) -> Collection[int]:
        return self._unsure

    @property
    def contributions(self) -> dict[int, int]:
        """worker -> examples of the gradients delivered in this round."""
        return dict(self._examples)

    @property
    def ended(self) -> bool:
        """Everybody has left and no delivered gradient is waiting to be applied."""
        return not self._expected and not self._examples

    def receive(self, message: Message) -> Sequence[Token]:
        """Takes one message in; returns the tokens to send at once."""
        if message.kind is Kind.JOIN:
            return self._join(message)
        if self._incarnations.get(message.worker) == message.incarnation:
            if message.kind is Kind.LEAVE:
                return self._leave(message)
            if message.round == self.round and message.worker in self._expected:
                self._examples[message.worker] = message.examples
        return ()

    def _join(self, message: Message) -> Sequence[Token]:
        before = self._incarnations.get(message.worker)
        if before == message.incarnation:
            return ()
        self._expected.add(message.worker)
        self._incarnations[message.worker] = message.incarnation
        if message.worker in self._examples:
            return ()
        if before is not None:
            return self._return(message.worker)
        return (self._token(message.worker),)

    def _return(self, worker: int) -> Sequence[Token]:
        """The worker has died holding a token of this round, and come back."""
        self._unsure.add(worker)
        return ()

    def _leave(self, message: Message) -> Sequence[Token]:
        self._expected.discard(message.worker)
        self._unsure.discard(message.worker)
        del self._incarnations[message.worker]
        return (Token(message.worker, Kind.STOP, message.incarnation, self.round),)

    def clear(self) -> Sequence[Token]:
        """No gradient was found of those who are unsure: they join the round."""
        joined, self._unsure = sorted(self._unsure), set()
        return [self._token(worker) for worker in joined]

    def repeat(self) -> Sequence[Token]:
        """The round is void; its step is computed again in a new one. The number between is for emptying the accumulators."""
        self.round += 1
        return self.advance()

    def advance(self) -> Sequence[Token]:
        """The round is over; returns the tokens of the next one, to be sent when the mean has been applied."""
        self.round += 1
        self._examples.clear()
        self._unsure.clear()
        return [self._token(worker) for worker in sorted(self._incarnations)]

    def _token(self, worker: int, kind: Kind = Kind.GO) -> Token:
        return Token(worker, Kind.STOP if self.stopping else kind, self._incarnations[worker], self.round)
