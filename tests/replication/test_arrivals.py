"""Where the gradients of a streamed round wait: queues and an accumulator in a real session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import tensorflow as tf

from psclust.replication.sync.arrivals import Arrivals, arrivals_of, inlet_of, others_of
from psclust.replication.sync.stream_channel import announce, stamp_of, stamps

pytestmark = pytest.mark.tensorflow


class Meeting:
    """The arrivals of one variable of `workers` workers, in a session. A gradient is a number, in
    all its elements."""

    def __init__(self, workers: int) -> None:
        with tf.device("/job:localhost/task:0/cpu:0"):
            self._workers = workers
            variable = tf.compat.v1.get_variable("weights", [3], use_resource=True)
            self.arrivals: Arrivals = arrivals_of(variable, workers)
            self._value = tf.compat.v1.placeholder(tf.float32, [])
            self._round = tf.compat.v1.placeholder(tf.int64, [])
            self._taking_part = tf.compat.v1.placeholder(tf.int32, [workers])
            gradient = tf.fill([3], self._value)
            self._push = [
                self.arrivals.push(inlet, gradient, self._round) for inlet in self.arrivals.inlets
            ]
            self._zero = [
                self.arrivals.push_zero(inlet, self._round) for inlet in self.arrivals.inlets
            ]
            self._counts = [self.arrivals.count(inlet) for inlet in self.arrivals.inlets]
            gradients, rounds = self.arrivals.take(others_of(self._taking_part))
            self._sum = tf.add_n(gradients), rounds
        self._session = tf.compat.v1.Session()

    def push(self, worker: int, value: float, round_: int) -> None:
        self._session.run(self._push[inlet_of(worker)], {self._value: value, self._round: round_})

    def push_zero(self, worker: int, round_: int) -> None:
        self._session.run(self._zero[inlet_of(worker)], {self._round: round_})

    def lacking(self) -> list[int]:
        """The inlets at which less waits than a sum may take."""
        counts = self._session.run(self._counts)
        return [
            inlet
            for inlet, count in enumerate(counts)
            if count < self.arrivals.most(inlet, self._workers)
        ]

    def sum(self, taking_part: Sequence[int]) -> tuple[float, list[int]]:
        """(the sum, the rounds of what was taken from queues)."""
        (first, *others), rounds = self._session.run(self._sum, {self._taking_part: taking_part})
        assert others == [first] * 2
        return first, rounds


@pytest.fixture
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_gradients_of_all_workers_are_added(workers: int) -> None:
    meeting = Meeting(workers)
    for round_ in (100, 101):
        for worker in range(workers):
            meeting.push(worker, 10.0**worker, round_)
        assert meeting.sum([1] * workers) == (
            sum(10.0**worker for worker in range(workers)),
            [round_] * min(workers, 2),
        )


@pytest.mark.usefixtures("graph")
def test_a_place_that_no_worker_has_needs_a_zero() -> None:
    meeting = Meeting(4)
    for taking_part in ([1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]):
        for worker, takes_part in enumerate(taking_part):
            if takes_part:
                meeting.push(worker, 10.0**worker, 100)
        for inlet in {0, 1, 2} - {inlet_of(worker) for worker in range(4) if taking_part[worker]}:
            meeting.push_zero(inlet, 100)
        assert meeting.sum(taking_part) == (
            sum(10.0**worker for worker in range(4) if taking_part[worker]),
            [100, 100],
        )


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("worker", [0, 1])
def test_the_rounds_tell_what_is_of_another(worker: int) -> None:
    meeting = Meeting(2)
    meeting.push(worker, 7.0, 98)
    for each in (0, 1):
        meeting.push(each, 1.0, 100)
    _, rounds = meeting.sum([1, 1])
    assert rounds == [98 if each == worker else 100 for each in (0, 1)]


@pytest.mark.usefixtures("graph")
def test_an_accumulator_refuses_one_of_an_older_round() -> None:
    meeting = Meeting(3)
    for round_ in (0, 1):
        # The second is as late as a process that was thought dead.
        for worker in (0, 1, 2):
            meeting.push(worker, 1.0, round_)
        assert meeting.sum([1, 1, 1]) == (3.0, [round_] * 2)
        meeting.push(2, 7.0, round_)


@pytest.mark.usefixtures("graph")
def test_a_place_lacks_gradients_until_there_is_one_of_each_of_its_workers() -> None:
    meeting, found = Meeting(4), []
    for worker in (2, 0, 3, 1):
        found.append(meeting.lacking())
        meeting.push(worker, 1.0, 100)
    assert [*found, meeting.lacking()] == [[0, 1, 2], [0, 1, 2], [1, 2], [1], []]


# ---- stamps: what a worker takes for the update it waits for


def test_each_worker_gets_its_own_stamps_in_their_order(session: tf.compat.v1.Session) -> None:
    variable = tf.compat.v1.get_variable("v", [])
    round_ = tf.compat.v1.placeholder(tf.int64, [1])
    enqueued = announce([variable], [round_, round_[:0], round_], [])
    sizes = [stamps([variable], worker).size() for worker in range(3)]
    taken = stamp_of([variable], 2)
    for number in (3, 5):
        session.run(enqueued, {round_: [number]})
    assert session.run(sizes) == [2, 0, 2]
    assert [session.run(taken) for _ in range(2)] == [3, 5]
    assert session.run(sizes) == [2, 0, 0]


def test_stamps_follow_the_update(session: tf.compat.v1.Session) -> None:
    variable = tf.compat.v1.get_variable("v", [], initializer=tf.compat.v1.zeros_initializer())
    updates = [variable.assign_add(1.0).op for _ in range(2)]
    session.run(variable.initializer)
    (announced,) = announce([variable], [tf.constant([1], tf.int64)], updates)
    assert set(updates) <= set(announced.control_inputs)
    session.run(announced)
    assert session.run(variable) == 2.0


@pytest.mark.usefixtures("session")
def test_graphs_that_create_a_group_in_another_order_share_its_queue() -> None:
    one, other = (tf.compat.v1.get_variable(name, []) for name in "ba")
    queues = [stamps(group, 0).queue_ref.op for group in ([one, other], [other, one])]
    assert len({queue.get_attr("shared_name") for queue in queues}) == 1
