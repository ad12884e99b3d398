"""Backup workers with real queues and accumulators, in one local session: a gradient counts as a
whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_coordinator import Bench, both_step, made_bench, outcome

from psclust.replication.sync.messages import Kind

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Three replicas, of which a step takes two."""
    with made_bench(3, needed=2) as made:
        yield made


def _join_by_hand(bench: Bench, replica: int, incarnation: int) -> int:
    """The round of the token of a replica that the test plays itself."""
    ops = bench.workers[replica]
    bench.session.run(ops.send, {ops.kind: Kind.JOIN, ops.incarnation: incarnation, ops.round: 0})
    kind, _, round_, _ = bench.session.run(ops.token)
    assert kind == Kind.GO
    return int(round_)


def _values(bench: Bench) -> tuple[list[float], list[float], list[int]]:
    """dense, sparse, positions; a step of the tally adds 1 to the first element of either
    variable."""
    dense, sparse, positions = bench.session.run(
        ["dense/Read/ReadVariableOp:0", "sparse/Read/ReadVariableOp:0", bench.state.positions]
    )
    return dense.tolist(), sparse[:, 0].tolist(), positions.tolist()


def _ones(steps: float) -> list[float]:
    return [steps, 0.0, 0.0, 0.0]


def test_half_a_gradient_that_arrives_before_the_step_is_made_is_not_in_it(bench: Bench) -> None:
    bench.drive()
    one, other = bench.join(0), bench.join(1)
    ops, round_ = bench.workers[2], _join_by_hand(bench, 2, 5)
    bench.session.run(bench.half_pushes[2], {ops.round: round_})
    assert [outcome(made) for made in both_step(one, other)] == [(True, 1, True)] * 2
    assert _values(bench)[:2] == (_ones(1.0), _ones(1.0))
    # The rest arrives, and says so: late.
    bench.session.run(bench.other_halves[2], {ops.round: round_})
    bench.session.run(ops.send, {ops.kind: Kind.GRADIENT, ops.incarnation: 5, ops.round: round_})
    kind, incarnation, next_round, step = bench.session.run(ops.token)
    assert (kind, incarnation, next_round, step) == (Kind.LATE, 5, round_ + 1, 1)
    assert bench.dropped == [2]
    # It goes on in the step that is being made, and nothing of the dropped gradient is left.
    bench.session.run([bench.half_pushes[2], bench.other_halves[2]], {ops.round: next_round})
    bench.session.run(
        ops.send, {ops.kind: Kind.GRADIENT, ops.incarnation: 5, ops.round: next_round}
    )
    assert outcome(one.step()) == (True, 2, True)
    # This gradient by hand brought no examples and 7 for each variable: (-2 + 7) / 2 examples.
    assert _values(bench) == (
        pytest.approx([1.0 - 2.5, -3.5, -3.5, -3.5]),
        pytest.approx([1.0 - 2.5, 0.0, 0.0, 0.0]),
        [2, 1, 1],
    )


def test_a_lost_worker_is_replaced_and_half_of_its_gradient_forgotten(bench: Bench) -> None:
    bench.drive()
    one = bench.join(0)
    ops, round_ = bench.workers[1], _join_by_hand(bench, 1, 5)
    bench.session.run(bench.half_pushes[1], {ops.round: round_})
    successor = bench.join(1)
    # What its former self had on its way arrives even later.
    bench.session.run(bench.other_halves[1], {ops.round: round_})
    assert outcome(both_step(one, successor)[1]) == (True, 1, True)
    assert _values(bench) == (_ones(1.0), _ones(1.0), [1, 1, 0])
    assert both_step(one, successor)[0].token.step == 2
    assert _values(bench) == (_ones(2.0), _ones(2.0), [2, 2, 0])


def test_a_new_chief_starts_without_what_an_earlier_one_left(bench: Bench) -> None:
    bench.session.run(
        [bench.half_pushes[2], bench.other_halves[2], bench.half_pushes[0]],
        {w.round: 7 for w in bench.workers},
    )
    bench.drive()
    one, other = bench.join(0), bench.join(1)
    third = bench.join(2)
    assert both_step(one, third)[1].token.step == 1
    made = other.step()
    assert (outcome(made), made.late) == ((True, 1, False), True)
    assert _values(bench)[:2] == (_ones(1.0), _ones(1.0))


def test_a_late_worker_steps_again_and_its_batch_is_used_up_with_the_next_update(
    bench: Bench,
) -> None:
    bench.drive()
    one, other, late = bench.join(0), bench.join(1), bench.join(2)
    both_step(one, other)
    made = late.step()
    assert (outcome(made), made.late) == ((True, 1, False), True)
    assert _values(bench)[2] == [1, 1, 0]
    assert outcome(both_step(one, late)[1]) == (True, 2, True)
    assert _values(bench) == (_ones(2.0), _ones(2.0), [2, 1, 2])


def test_the_end_waits_for_the_late_and_for_nobody_else(bench: Bench) -> None:
    coordinator = bench.drive(stop_at=1)
    one, other, late = bench.join(0), bench.join(1), bench.join(2)
    assert [outcome(made) for made in both_step(one, other)] == [(False, 1, True)] * 2
    for participant in (one, other):
        participant.leave()
    assert not coordinator.wait(0.0)
    assert not late.step().token.go
    late.leave()
    assert coordinator.wait(300)
    assert coordinator.error is None
    assert bench.ended == [0, 1, 2]
