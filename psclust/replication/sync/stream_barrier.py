"""The barrier whose steps are streamed, as a pure transition table like the plain one: each
variable is updated as soon as the gradients of all workers for it have arrived, and the update that
ends the round only counts it.

The chief begins the stream of a round for the workers it then expects, its *members*; each variable
waits for one gradient of every member. When each member's message is there and the stream has
ended, the step is counted. For a member that left without a gradient the chief pushes one of zero,
over no examples. A worker that joins and is not a member waits for the next round.

Of a void round, some variables may be updated already. The chief pushes gradients of zero for all
members, which ends the stream, and rolls the variables back.
"""

from __future__ import annotations

from typing import Any

from psclust.replication.sync.actions import Action, Fill, RollBack, Send, Stream
from psclust.replication.sync.barrier import Barrier
from psclust.replication.sync.messages import Message


class StreamingBarrier(Barrier):
    """Begins a stream with every round that is to make a step."""

    def __init__(self, workers: int, first_round: int, **options: Any) -> None:
        super().__init__(workers, first_round, **options)
        # Those of the stream that is under way; empty if none is. `_waiting`: for the next round.
        self._members: frozenset[int] = frozenset()
        self._waiting: set[int] = set()

    @property
    def ended(self) -> bool:
        return super().ended and not self._members and not self._waiting

    def open(self) -> list[Action]:
        return [*super().open(), *self._begin()]

    def close_round(self) -> list[Action]:
        if not self._members:
            return super().close_round()
        if self._examples and not sum(self._examples.values()):
            # As in the plain barrier, there is no data any more.
            self._stopping = True
        return (
            self._void()
            if self._stopping or self._replaced or not self._examples
            else self._update()
        )

    def _begin(self) -> list[Action]:
        self._members = frozenset() if self._stopping else frozenset(self._expected)
        return [Stream(self.round, tuple(sorted(self._members)))] if self._members else []

    def _join(self, message: Message) -> list[Action]:
        if not self._members:
            return [*super()._join(message), *self._begin()]
        if message.worker in self._members:
            return super()._join(message)
        self._incarnations[message.worker] = message.incarnation
        self._waiting.add(message.worker)
        return []

    def _leave(self, message: Message) -> list[Action]:
        self._waiting.discard(message.worker)
        return super()._leave(message)

    def _update(self) -> list[Action]:
        round_, empty = self.round, tuple(sorted(self._members - self._examples.keys()))
        filled: list[Action] = [Fill(round_, empty)] if empty else []
        return [*filled, *super()._update(), *self._begin()]

    def _void(self) -> list[Action]:
        round_, members = self.round, tuple(sorted(self._members))
        *warning, reset, tokens = super()._void()
        return [*warning, RollBack(round_, members), reset, tokens, *self._begin()]

    def _advance(self) -> Send:
        self._expected |= self._waiting
        self._waiting.clear()
        return super()._advance()
