"""The barrier with backup workers, as a pure transition table like the plain one: a step takes the first gradients to arrive.

The chief goes on when `needed` gradients have been delivered, or as many as there are workers left. Whoever has not delivered by then goes
on computing; its gradient is dropped when it arrives, and only then does it get its next token, for the step that is being made. So every
worker still has at most one gradient on its way, and one that is dropped is always a complete one.

Messages of several steps are on their way at the same time here, so a gradient is known by the number of the token it was computed with. A
worker that died holds a token nobody will answer; its successor gets one with a greater number at once, and what its former self pushed is
older than that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from psclust.replication.sync.barrier import Barrier, Kind, Message, Token


class BackupBarrier(Barrier):
    """Goes on when `needed` of the `workers` have delivered."""

    def __init__(self, workers: Iterable[int], first_round: int, needed: int) -> None:
        super().__init__(workers, first_round)
        self._needed = needed
        self._opened = first_round
        self._held: dict[int, int] = {}

    @property
    def awaited(self) -> Collection[int]:
        """The workers of whom the round needs some; empty when it has enough."""
        taking_part = len(self._expected | self._examples.keys())
        enough = len(self._examples) >= max(1, min(self._needed, taking_part))
        return frozenset() if enough else super().awaited

    def receive(self, message: Message) -> Sequence[Token]:
        """As of any barrier; a gradient that is answered at once has come too late."""
        if message.kind is not Kind.GRADIENT:
            return super().receive(message)
        if self._incarnations.get(message.worker) != message.incarnation or self._held.get(message.worker) != message.round:
            return ()
        del self._held[message.worker]
        if message.round < self._opened:
            return (self._token(message.worker, Kind.LATE),)
        self._examples[message.worker] = message.examples
        return ()

    def _leave(self, message: Message) -> Sequence[Token]:
        self._held.pop(message.worker, None)
        return super()._leave(message)

    def _return(self, worker: int) -> Sequence[Token]:
        # One number is for emptying the worker's accumulators, as in `repeat`.
        self.round += 2
        return (self._token(worker),)

    def advance(self) -> Sequence[Token]:
        """The round is over; returns the tokens of those who hold none."""
        self.round += 1
        self._opened = self.round
        self._examples.clear()
        return [self._token(worker) for worker in sorted(self._incarnations.keys() - self._held.keys())]

    def _token(self, worker: int, kind: Kind = Kind.GO) -> Token:
        self._held[worker] = self.round
        return super()._token(worker, kind)
