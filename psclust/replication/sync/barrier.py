"""The barrier of synchronous between-graph training, as a pure transition table: messages in,
actions out.

TensorFlow's `SyncReplicasOptimizer` counts gradients, not workers: two gradients of a fast worker
may count for one of a slow worker, and a worker whose data ends leaves the others waiting for
gradients that never come. This barrier knows each worker by its number.

A *round* is one attempt at one global step. A worker gets a token for the round, pushes exactly one
gradient under the round's number, then sends a message and waits for its next token. The chief
applies the mean when every worker that has not left has sent its message. Round numbers only grow,
also when the chief restarts (they start from the clock), and accumulators refuse gradients of older
rounds.

A new *incarnation* marks a worker that was restarted. A worker that dies within a round may have
pushed part of its gradient, so the round is *void* when all others have delivered: they compute the
step again while the successor computes it for the first time, so the step takes no longer.

Replicas that sum moments (`all_reduce`) wait for each other in the middle of a step. When one of
them is lost or leaves, the others are released with made-up values; the round is *spoilt*, and void
as well.
"""

from __future__ import annotations

from collections.abc import Collection

from psclust.replication.sync.actions import (
    Action,
    Left,
    Release,
    Reset,
    Send,
    Warn,
)
from psclust.replication.sync.messages import Kind, Message, Token, Update


class Barrier:
    """The state of the current round.

    first_round: greater than any round of an earlier barrier. step: the global step reached.
    ended: the workers that have ended their training already. max_steps: the step at which training
    stops. all_reduce: whether replicas sum moments. fresh: there was no earlier barrier.
    """

    def __init__(
        self,
        workers: int,
        first_round: int,
        *,
        step: int = 0,
        ended: Collection[int] = (),
        max_steps: int | None = None,
        all_reduce: bool = False,
        fresh: bool = True,
    ) -> None:
        self.round = first_round
        self._workers = workers
        self._step = step
        self._max_steps = max_steps
        self._stopping = self._is_last_step
        self._all_reduce = all_reduce
        # Replicas may be waiting in an all-reduce of the earlier barrier.
        self._spoilt = all_reduce and not fresh
        self._expected = set(range(workers)) - set(ended)
        self._incarnations: dict[int, int] = {}
        self._replaced: set[int] = set()
        self._examples: dict[int, int] = {}
        self._parts: dict[int, int] = {}

    @property
    def awaited(self) -> Collection[int]:
        """The workers whose message the round still needs; at least this many messages will
        come."""
        return self._expected - self._examples.keys() - self._replaced

    @property
    def wanted(self) -> int:
        """How many messages to wait for at a time. In an all-reduce the others send nothing until
        the successor of a lost worker has joined, so that message must be received alone."""
        return min(1, len(self.awaited)) if self._all_reduce else len(self.awaited)

    @property
    def ended(self) -> bool:
        """Whether all workers have left and no delivered gradient is waiting to be applied."""
        return not self._expected and not self._examples

    @property
    def _is_last_step(self) -> bool:
        return self._max_steps is not None and self._step >= self._max_steps

    def stop(self) -> None:
        """Makes no further step."""
        self._stopping = True

    def open(self) -> list[Action]:
        """Empties what an earlier barrier has left, and asks all workers to join: also those that
        have ended, since their STOP may not have been sent."""
        resync = Token(Kind.RESYNC, 0, self.round, self._step)
        return [
            Reset(self.round, blocked=self._spoilt),
            Send(dict.fromkeys(range(self._workers), resync)),
        ]

    def receive(self, message: Message) -> list[Action]:
        if message.kind is Kind.JOIN:
            return self._join(message)
        if self._incarnations.get(message.worker) != message.incarnation:
            return []
        return self._leave(message) if message.kind is Kind.LEAVE else self._gradient(message)

    def unblock(self) -> list[Action]:
        """Releases the replicas that wait in an all-reduce for a lost worker; for when all waiting
        messages have been received."""
        return self._release() if self._replaced else []

    def close_round(self) -> list[Action]:
        """Ends a round that awaits no worker."""
        if not self._examples and not self._replaced:
            return []
        # If asked to stop while workers were computing this step, it is not made.
        void = self._replaced or self._spoilt or self._stopping
        return self._void() if void else self._update()

    def _join(self, message: Message) -> list[Action]:
        before = self._incarnations.get(message.worker)
        if before == message.incarnation:
            return []
        self._expected.add(message.worker)
        self._incarnations[message.worker] = message.incarnation
        if message.worker in self._examples:
            return []
        return [self._send(message.worker)] if before is None else self._replace(message.worker)

    def _replace(self, worker: int) -> list[Action]:
        """The worker died with a token of this round, and its successor has joined."""
        self._replaced.add(worker)
        return []

    def _gradient(self, message: Message) -> list[Action]:
        if message.round == self.round and message.worker in self._expected:
            self._examples[message.worker] = message.examples
            if message.part:
                self._parts[message.worker] = message.part
        return []

    def _leave(self, message: Message) -> list[Action]:
        self._expected.discard(message.worker)
        self._replaced.discard(message.worker)
        del self._incarnations[message.worker]
        stop = Token(Kind.STOP, message.incarnation, self.round, self._step)
        return [Left(message.worker), *self._release(), Send({message.worker: stop})]

    def _release(self) -> list[Action]:
        if not self._all_reduce or self._spoilt or not self.awaited:
            return []
        self._spoilt = True
        return [Release(self.round)]

    def _update(self) -> list[Action]:
        examples = sum(self._examples.values())
        if not examples:
            # Replicas that wait for each other end together: the data of all has ended.
            self._stopping = True
            return [Reset(self.round), self._advance()]
        self._step += 1
        self._stopping = self._is_last_step
        round_, batches, parts = self.round, self._batches(), dict(self._parts)
        return [Update(round_, self._step, examples, batches, self._advance().tokens, parts)]

    def _batches(self) -> dict[int, int]:
        """worker -> batches that the update uses up."""
        return {worker: 1 for worker, examples in self._examples.items() if examples}

    def _void(self) -> list[Action]:
        """All workers compute the step again in a new round. The round in between is for emptying
        the accumulators."""
        text = f"a worker died in the middle of step {self._step + 1}; the step is computed again"
        warning = [Warn(text)] if self._replaced else []
        self._spoilt = False
        self.round += 1
        tokens = self._advance()
        return [*warning, Reset(self.round), tokens]

    def _advance(self) -> Send:
        """Begins the next round; returns its tokens."""
        self.round += 1
        self._examples.clear()
        self._parts.clear()
        self._replaced.clear()
        return self._send(*sorted(self._incarnations))

    def _send(self, *workers: int, kind: Kind = Kind.GO) -> Send:
        kind = Kind.STOP if self._stopping else kind
        return Send(
            {
                worker: Token(kind, self._incarnations[worker], self.round, self._step)
                for worker in workers
            }
        )
