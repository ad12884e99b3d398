"""Feeds the inputs of a replica with parts of the data that it claims, in a thread of its own: so
the next part is there before the one that is read ends, and the others know that this replica is
alive while a long step is made."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum

import tensorflow as tf

from psclust.replication.close_session import close
from psclust.replication.input.replica_input import ReplicaInput
from psclust.replication.input.upcoming import MOST
from psclust.replication.parts.dispenser import Dispenser, dispenser_ops
from psclust.replication.tf_types import Session
from psclust.train.held_parts import HeldParts

_BEAT_S = 2.0
SILENT_S = 45.0
"""A process that is not heard of for so long loses its parts: more than the default lease, after
which the tasks of a lost host have ended."""


class Supply(Enum):
    """What there is for a replica that has read all it had."""

    HERE = "here"
    """Parts; the input has begun with them."""
    AWAITED = "awaited"
    """Others hold all that is left. One of them may die, and leave some."""
    OVER = "over"
    """Nothing: all parts are finished."""


class PartFeeder:
    """Adds its ops to the current graph. inputs: of a replica, or of all towers of a client. slot:
    the replica's number. client: the device of this process."""

    def __init__(
        self, dispenser: Dispenser, inputs: Sequence[ReplicaInput], slot: int, client: str
    ) -> None:
        self._dispenser = dispenser
        self._ops = dispenser_ops(dispenser, client)
        self._upcoming = [each for data in inputs for each in data.upcoming]
        self._begin = tf.group(*[data.initializer for data in inputs])
        self._slot = slot
        self._claims: _Claims | None = None

    def start(self, session: Session) -> None:
        """Begins the inputs with the parts that this replica holds, each after its last batch that
        was used, and goes on to feed them, until `end`. The first time it takes the replica's place
        among those that claim; the variables must have values then."""
        if self._claims is None:
            me = secrets.randbits(62) + 1
            session.run(self._ops.join, {self._ops.slot: self._slot, self._ops.me: me})
            self._claims = _Claims(session, me, len(self._upcoming))
        claims = self._claims
        claims.pause()
        claims.life += 1
        left = claims.share_out()
        used = session.run(self._dispenser.batches) if left else ()
        for number, parts in left.items():
            self._put(claims, number, [(row, p, int(used[p])) for row, p in enumerate(parts)])
        self._fill(claims)
        session.run(self._begin, {each.life: claims.life for each in self._upcoming})
        claims.resume(lambda: self._feed(claims))

    def applied(self, parts: Sequence[int]) -> bool:
        """An update has used batches of `parts`, those of each input in turn; -1: padding. Returns
        whether an input has ended before others: then `restock`."""
        claims = self._claims
        assert claims is not None
        claims.applied(parts)
        each = len(parts) // len(claims.inputs)
        claims.dry = {place // each for place, part in enumerate(parts) if part < 0}
        return bool(claims.dry) and not claims.last

    def restock(self) -> None:
        """Gives inputs that have ended some of the parts that others have, or new ones; if there is
        nothing for them, they go on with padding."""
        claims = self._claims
        assert claims is not None
        claims.last = self._begin_again(claims, claims.dry) < len(claims.inputs)

    def more(self) -> Supply:
        """For when all inputs have ended."""
        claims = self._claims
        assert claims is not None
        claims.last = False
        if self._begin_again(claims, range(len(claims.inputs))):
            return Supply.HERE
        claims.pause()
        return Supply.AWAITED if claims.awaited else Supply.OVER

    def _begin_again(self, claims: _Claims, ended: Iterable[int]) -> int:
        """Begins the inputs again when those numbers have ended: what these have read is finished.
        Returns how many parts they have."""
        claims.pause()
        lives = {each.life: claims.life for each in self._upcoming}
        ends = claims.session.run([each.ended for each in self._upcoming], lives)
        for number in ended:
            claims.read(claims.inputs[number].read_up_to(int(ends[number])))
        self._finish(claims)
        # Where there are more, they were not there as soon as the last ones were read.
        claims.ahead = min(2 * claims.ahead, MOST)
        self.start(claims.session)
        return sum(len(held.parts) for held in claims.inputs)

    def leave(self, session: Session) -> None:
        """Gives back what this replica holds, and its place."""
        claims = self._claims
        if claims is not None:
            claims.pause()
            self._finish(claims)
            session.run(self._ops.leave, {self._ops.slot: self._slot, self._ops.me: claims.me})
        self.end()

    def sweep(self, session: Session) -> Sequence[int]:
        """Frees what is held by processes that are not heard of any more; returns the numbers of
        their replicas."""
        gone = session.run(
            self._ops.sweep, {self._ops.slot: self._slot, self._ops.patience: SILENT_S}
        )
        return [int(slot) for slot in gone]

    def vacate(self, session: Session, replicas: int) -> None:
        """Frees what is held by processes of replicas that a run of so many `replicas` lacks."""
        session.run(self._ops.vacate, {self._ops.slot: replicas})

    def free_all(self, session: Session) -> None:
        """Whatever anybody holds: for a client that is the only one there is."""
        session.run(self._ops.sweep, {self._ops.slot: self._slot, self._ops.patience: -1.0})

    def begun(self, session: Session) -> bool:
        """Whether any replica has used a batch, ever."""
        return bool(session.run(self._ops.begun))

    def end(self) -> None:
        """Ends the thread. For every end of a session."""
        if self._claims is not None:
            self._claims.pause()
            self._claims = None

    def check(self) -> None:
        """Raises the error of the thread, which has closed the session for it."""
        if self._claims is not None and self._claims.error is not None:
            raise self._claims.error

    def _feed(self, claims: _Claims) -> None:
        """The thread, until `pause`."""
        try:
            while claims.going:
                self._finish(claims)
                self._fill(claims)
                if claims.is_to_beat() and not claims.session.run(
                    self._ops.beat, {self._ops.slot: self._slot, self._ops.me: claims.me}
                ):
                    raise tf.errors.AbortedError(
                        None, None, "another process has taken this replica's place"
                    )
                claims.wait(_BEAT_S)
        except (tf.errors.OpError, RuntimeError) as error:
            if claims.going:
                claims.error = error
                close(claims.session)

    def _fill(self, claims: _Claims) -> None:
        """Claims parts for inputs that have room for them, for the shortest first."""
        room = sum(max(0, claims.ahead - len(held.parts)) for held in claims.inputs)
        if not room:
            return
        found, awaited = claims.session.run(
            self._ops.claim, {self._ops.me: claims.me, self._ops.most: room}
        )
        claims.awaited = bool(awaited)
        given: dict[int, list[tuple[int, int, int]]] = {}
        for part, used in found.tolist():
            number = claims.shortest()
            given.setdefault(number, []).append((claims.inputs[number].add(part), part, used))
        for number, rows in given.items():
            self._put(claims, number, rows)

    def _put(self, claims: _Claims, number: int, rows: Iterable[tuple[int, int, int]]) -> None:
        """For input `number`: (number of the row, part, how many of its batches are used)."""
        upcoming = self._upcoming[number]
        claims.session.run(upcoming.put, {upcoming.rows: [(claims.life, *row) for row in rows]})

    def _finish(self, claims: _Claims) -> None:
        done = claims.take_finished()
        if done:
            claims.session.run(self._ops.finish, {self._ops.parts: done, self._ops.me: claims.me})


@contextmanager
def feeding(feeders: Sequence[PartFeeder]) -> Iterator[None]:
    """Ends their threads with the block. If it fails because one of them has closed the session,
    raises the error for which it did so."""
    try:
        yield
    except (tf.errors.OpError, RuntimeError):
        for feeder in feeders:
            feeder.check()
        raise
    finally:
        for feeder in feeders:
            feeder.end()


class _Claims:
    """What a process holds in a session, and the thread that claims it. me: its number. life: of
    its inputs. ahead: how many parts each has, the one that it reads among them. dry: the numbers
    of inputs that have ended before others; last: there is not a part for each. awaited: whether
    other processes had to finish some parts when it last claimed. error: of the thread."""

    def __init__(self, session: Session, me: int, inputs: int) -> None:
        self.session = session
        self.me = me
        self.life = secrets.randbits(40)
        self.ahead = 2
        self.inputs = [HeldParts() for _ in range(inputs)]
        self.dry: Collection[int] = ()
        self.last = False
        self.awaited = False
        self.error: Exception | None = None
        self.going = False
        self._woken = threading.Event()
        self._finished: deque[int] = deque()
        self._beat = 0.0
        self._thread: threading.Thread | None = None

    def share_out(self) -> Mapping[int, Sequence[int]]:
        """For a new begin of the inputs: what they have, evenly; the number of each that has some,
        and its parts."""
        held = [part for each in self.inputs for part in each.parts]
        count = len(self.inputs)
        for number, each in enumerate(self.inputs):
            each.begin(held[number::count])
        return {number: each.parts for number, each in enumerate(self.inputs) if each.parts}

    def shortest(self) -> int:
        """The number of the input with the fewest parts."""
        return min(range(len(self.inputs)), key=lambda number: len(self.inputs[number].parts))

    def applied(self, parts: Iterable[int]) -> None:
        self.read([each for part in parts for held in self.inputs for each in held.before(part)])

    def read(self, parts: Sequence[int]) -> None:
        """They are finished."""
        if parts:
            self._finished.extend(parts)
            self._woken.set()

    def take_finished(self) -> Sequence[int]:
        """Those that have not been taken yet."""
        return [self._finished.popleft() for _ in range(len(self._finished))]

    def resume(self, feed: Callable[[], None]) -> None:
        self.going = True
        self._thread = threading.Thread(target=feed, name="parts", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        self.going = False
        self._woken.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def is_to_beat(self) -> bool:
        now = time.monotonic()
        due = now >= self._beat
        if due:
            self._beat = now + _BEAT_S
        return due

    def wait(self, timeout_s: float) -> None:
        """Until there is something to do, or `timeout_s` is over."""
        self._woken.wait(timeout_s)
        self._woken.clear()
