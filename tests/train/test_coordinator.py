"""The barrier with real queues and accumulators, in one local session: what happens around a worker
that dies half-way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import tensorflow as tf
import toys

import psclust
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.sync.accumulators import push
from psclust.replication.sync.backup_ops import own_accumulators
from psclust.replication.sync.barrier_channel import build_channel
from psclust.replication.sync.coordinator import BarrierCoordinator, new_barrier
from psclust.replication.sync.coordinator_ops import CoordinatorOps, coordinator_ops
from psclust.replication.sync.messages import Kind
from psclust.replication.sync.participant import BarrierParticipant, SyncStep
from psclust.replication.sync.participant_ops import ParticipantOps, participant_ops
from psclust.replication.towers.tower import build_tower
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import Places
from psclust.replication.variables.training_state import State, create_state
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.tensorflow


@dataclass
class Bench:
    """A chief and replicas of the tally model whose batches all say 0. half_pushes: of each, a push
    of 7 into one of its two accumulators; other_halves: a push of 7 into the other one."""

    session: Any
    state: State
    chief: CoordinatorOps
    workers: list[ParticipantOps]
    half_pushes: list[Any]
    other_halves: list[Any]
    ended: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def drive(self, stop_at: int | None = None) -> BarrierCoordinator:
        barrier = new_barrier(
            self.chief, int(self.session.run(self.state.global_step)), max_steps=stop_at
        )
        coordinator = BarrierCoordinator(
            self.session,
            self.chief,
            barrier,
            left=self.ended.append,
            updated=lambda step: None,
            dropped=self.dropped.append,
        )
        coordinator.start()
        # Taken out of the way, so that every introduction is made once and the tests know which
        # messages there are.
        for worker in self.workers:
            assert self.session.run(worker.token)[0] == Kind.RESYNC
        return coordinator

    def join(self, replica: int) -> BarrierParticipant:
        participant = BarrierParticipant(self.session, self.workers[replica])
        assert participant.join().go
        return participant

    def join_both(self) -> tuple[BarrierParticipant, BarrierParticipant]:
        """Tokens are handed out when both are there."""
        one = Background(lambda: self.join(0))
        other = self.join(1)
        return one.result(), other


@contextmanager
def made_bench(
    replicas: int, needed: int | None = None, program: psclust.Program = toys.tally
) -> Iterator[Bench]:
    """Without backup workers all replicas push into the same accumulators. program: the tally
    model, with any optimizer."""
    layout = DeviceLayout(ps=0, workers=("",) * replicas, client="")
    with tf.Graph().as_default() as graph:
        state = create_state(layout)
        optimizer = program.optimizer(state.global_step)
        tower = build_tower(program, optimizer, layout, Places(1), 0, TowerKind(weighted=True))
        channel = build_channel(tower.gradients, layout, needed=needed)
        workers = [
            participant_ops(tower, channel, layout, replica, (), program.config)
            for replica in range(replicas)
        ]
        chief = coordinator_ops(tower, channel, optimizer, state, layout, program.config)
        halves: list[list[Any]] = [[], []]
        for replica, worker in enumerate(workers):
            own = (
                channel.accumulators
                if needed is None
                else own_accumulators(tower.gradients, replica)
            )
            for accumulator, (gradient, _) in zip(own, tower.gradients, strict=True):
                sparse = isinstance(gradient, tf.IndexedSlices)
                sevens: Any = tf.fill([4], 7.0)
                if sparse:
                    sevens = tf.IndexedSlices(tf.fill([1, 1], 7.0), tf.constant([0], tf.int64))
                halves[sparse].append(push(accumulator, sevens, worker.round))
        with tf.compat.v1.Session(graph=graph) as session:
            session.run([tf.compat.v1.global_variables_initializer(), tower.input.initializer])
            yield Bench(session, state, chief, workers, *halves)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with made_bench(2) as made:
        yield made


class Background:
    """A call in a thread, and its result."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._results: list[Any] = []
        threading.Thread(target=lambda: self._results.append(function()), daemon=True).start()

    @property
    def done(self) -> bool:
        return bool(self._results)

    def result(self) -> Any:
        return wait_until(lambda: self._results, what="a token")[0]


def both_step(one: BarrierParticipant, other: BarrierParticipant) -> tuple[SyncStep, SyncStep]:
    waiting = Background(one.step)
    made = other.step()
    return waiting.result(), made


def outcome(made: SyncStep) -> tuple[bool, int, bool]:
    """(whether the replica goes on, the global step, whether that has its gradient)."""
    return made.token.go, made.token.step, made.applied


def _dense(bench: Bench) -> Any:
    return bench.session.run("dense/Read/ReadVariableOp:0")


def test_a_round_needs_everybody_and_both_get_the_next_token(bench: Bench) -> None:
    bench.drive()
    one, other = bench.join_both()
    assert [outcome(made) for made in both_step(one, other)] == [(True, 1, True)] * 2
    assert _dense(bench).tolist() == [1.0, 0.0, 0.0, 0.0]


def _decaying() -> tf.compat.v1.train.Optimizer:
    # Its moments of a table with sparse gradients decay whatever the gradient is.
    return tf.compat.v1.train.AdamOptimizer(0.1)


def test_a_void_round_leaves_what_an_optimizer_changes_without_a_gradient(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = []
    for dies in (False, True):
        with made_bench(2, program=replace(toys.tally, optimizer_fn=_decaying)) as bench:
            bench.drive()
            one, other = bench.join_both()
            both_step(one, other)
            if dies:
                bench.session.run(bench.half_pushes[1], {bench.workers[1].round: other._round})
                waiting = Background(one.step)
                other = bench.join(1)
                assert not waiting.result().applied
            assert both_step(one, other)[0].token.step == 2
            names = ("sparse", "sparse/Adam", "sparse/Adam_1", "beta1_power", "dense")
            found.append(
                [bench.session.run(f"{name}/Read/ReadVariableOp:0").tolist() for name in names]
            )
    assert found[0] == found[1]
    assert "computed again" in caplog.text


def test_when_the_replica_of_the_chief_leaves_the_others_go_on(bench: Bench) -> None:
    coordinator = bench.drive()
    one, other = bench.join_both()
    for _ in range(2):
        both_step(one, other)
    stepping = Background(other.step)
    one.leave()
    assert outcome(stepping.result()) == (True, 3, True)
    assert outcome(other.step()) == (True, 4, True)
    other.leave()
    assert coordinator.wait(300)
    assert (bench.ended, coordinator.error) == ([0, 1], None)


@pytest.mark.parametrize("half", [True, False])
def test_a_worker_dies_while_the_chiefs_own_replica_waits(bench: Bench, half: bool) -> None:
    bench.drive()
    one, dead = bench.join_both()
    for _ in range(2):
        both_step(one, dead)
    waiting = Background(one.step)
    if half:
        bench.session.run(bench.half_pushes[1], {bench.workers[1].round: dead._round})
    successor = bench.join(1)
    assert outcome(waiting.result()) == (True, 2, False)
    waiting = Background(one.step)
    assert outcome(successor.step()) == outcome(waiting.result()) == (True, 3, True)
    assert outcome(both_step(one, successor)[0]) == (True, 4, True)
    assert _dense(bench).tolist() == [4.0, 0.0, 0.0, 0.0]


def test_whether_a_gradient_is_computed_shows_while_its_step_waits_for_others(bench: Bench) -> None:
    bench.drive()
    one, other = bench.join_both()
    mark = bench.workers[0].computed
    assert mark is not None
    assert not bench.session.run(mark.known)
    waiting = Background(one.step)
    wait_until(lambda: bench.session.run(mark.known), what="the gradient")
    assert bench.session.run(mark.value) == one._round
    assert not waiting.done
    other.step()
    waiting.result()


def test_a_gradient_of_an_older_round_counts_for_nothing(bench: Bench) -> None:
    bench.drive()
    one, other = bench.join_both()
    both_step(one, other)
    bench.session.run(bench.half_pushes[1], {bench.workers[1].round: 1})
    assert outcome(both_step(one, other)[0]) == (True, 2, True)
    assert _dense(bench).tolist() == [2.0, 0.0, 0.0, 0.0]


def test_a_lost_session_ends_the_driver_with_its_error(bench: Bench) -> None:
    coordinator = bench.drive()
    bench.join_both()
    bench.session.close()
    assert coordinator.wait(300)
    assert isinstance(coordinator.error, (tf.errors.CancelledError, RuntimeError))
