"""The barrier with backup workers, as a pure transition table like the plain one: a step takes the
first gradients that arrive.

A round is complete when `needed` gradients have been delivered, or as many as there are workers
left. The other workers go on computing; a late gradient is dropped when it arrives, and only then
does its worker get its next token, for the current round. So every worker has at most one gradient
on its way, and a dropped gradient is always a complete one.

Messages of several rounds are on their way at the same time, so a gradient is known by the round of
the token it was computed with. The successor of a lost worker gets a token of a greater round at
once; what the lost worker pushed is older than that and refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from psclust.replication.sync.actions import Action, Clear, Collect, Discard, Send
from psclust.replication.sync.barrier import Barrier
from psclust.replication.sync.messages import Kind, Message


class BackupBarrier(Barrier):
    """Completes a round when `needed` of the workers have delivered."""

    def __init__(self, workers: int, first_round: int, needed: int, **options: Any) -> None:
        super().__init__(workers, first_round, **options)
        self._needed = needed
        self._opened = first_round
        # worker -> the round of the token that it computes a gradient with.
        self._computing: dict[int, int] = {}
        # Batches of dropped gradients, which count as used up with the next update.
        self._dropped: Counter[int] = Counter()

    @property
    def awaited(self) -> Collection[int]:
        """The workers of which the round needs some; empty when it has enough."""
        taking_part = len(self._expected | self._examples.keys())
        enough = len(self._examples) >= max(1, min(self._needed, taking_part))
        return frozenset() if enough else super().awaited

    @property
    def wanted(self) -> int:
        """One at a time: the round may need fewer messages than it awaits workers."""
        return min(1, len(self.awaited))

    def open(self) -> list[Action]:
        reset, *rest = super().open()
        return [reset, *(Clear(worker, self.round) for worker in range(self._workers)), *rest]

    def _gradient(self, message: Message) -> list[Action]:
        if self._computing.get(message.worker) != message.round:
            return []
        del self._computing[message.worker]
        if message.round < self._opened:
            self._dropped[message.worker] += 1
            return [Discard(message.worker), self._send(message.worker, kind=Kind.LATE)]
        self._examples[message.worker] = message.examples
        return [Collect(message.worker, self.round)]

    def _leave(self, message: Message) -> list[Action]:
        self._computing.pop(message.worker, None)
        return super()._leave(message)

    def _replace(self, worker: int) -> list[Action]:
        # The round in between is for emptying the worker's accumulators. Its input starts from the
        # batches that updates have used up.
        self.round += 2
        del self._dropped[worker]
        return [Clear(worker, self.round), self._send(worker)]

    def _batches(self) -> dict[int, int]:
        batches, self._dropped = self._dropped + Counter(super()._batches()), Counter()
        return dict(batches)

    def _advance(self) -> Send:
        """Begins the next round; returns the tokens of the workers that hold none."""
        self.round += 1
        self._opened = self.round
        self._examples.clear()
        return self._send(*sorted(self._incarnations.keys() - self._computing.keys()))

    def _send(self, *workers: int, kind: Kind = Kind.GO) -> Send:
        self._computing.update(dict.fromkeys(workers, self.round))
        return super()._send(*workers, kind=kind)
