"""Which errors mean that a server is gone, and what is said about them."""

from __future__ import annotations

import socket
import threading
from contextlib import nullcontext

import pytest
import tensorflow as tf

from psclust.errors import PsclustError, StartError
from psclust.spec.cluster import ClusterSpec, Task
from psclust.train.session import (
    answers,
    brief,
    is_lost_peer,
    recover,
    session_config,
    start_server,
    wait_for_peers,
)
from psclust.train.task_context import TaskContext

pytestmark = pytest.mark.tensorflow

SEVERAL = """Graph execution error:

=====================
INVALID_ARGUMENT: From /job:worker/replica:0/task:1:
RecvFromRemoteAsync is cancelled.
ABORTED: From /job:ps/replica:0/task:1:
Session handle is not found: 7f634da7fa84277a.
=====================
"""
NOWHERE = TaskContext(
    Task("worker", 0), ClusterSpec({"ps": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",)})
)
ALIVE = TaskContext(Task("worker", 0), ClusterSpec({"worker": ("127.0.0.1:2",)}))


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (tf.errors.UnavailableError(None, None, "Socket closed"), True),
        (tf.errors.AbortedError(None, None, "device incarnation"), True),
        (tf.errors.FailedPreconditionError(None, None, "Could not find variable w"), True),
        (tf.errors.InvalidArgumentError(None, None, SEVERAL), True),
        (tf.errors.InvalidArgumentError(None, None, "Error:\nIncompatible shapes"), False),
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"), False),
    ],
)
def test_lost_servers_are_told_from_other_errors(error: tf.errors.OpError, lost: bool) -> None:
    assert is_lost_peer(error) is lost


def test_a_page_of_an_error_is_told_in_a_line() -> None:
    assert brief(tf.errors.InvalidArgumentError(None, None, SEVERAL)) == (
        "InvalidArgumentError on worker:1: RecvFromRemoteAsync is cancelled."
    )
    closed = (
        "Socket closed\nAdditional GRPC error information from remote target "
        "/job:ps/replica:0/task:0 while calling /tensorflow.WorkerService/RecvTensor:"
    )
    assert brief(tf.errors.UnavailableError(None, None, closed)) == (
        "UnavailableError on ps:0: Socket closed"
    )


@pytest.mark.parametrize(
    ("error", "fails", "patience", "made"),
    [
        # A ps that is restarted again and again fails a worker as often.
        (tf.errors.UnavailableError(None, None, "Socket closed"), 9, {}, 10),
        (tf.errors.FailedPreconditionError(None, None, "No table"), 99, {"patience_s": 0.0}, 6),
        (tf.errors.InvalidArgumentError(None, None, "Incompatible shapes"), 99, {}, 1),
    ],
    ids=["lost servers, in no time", "five failures without a step", "an error of the model"],
)
def test_an_attempt_is_made_again_until_its_error_is_the_users(
    error: tf.errors.OpError, fails: int, patience: dict[str, float], made: int
) -> None:
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        if len(attempts) <= fails:
            raise error

    with nullcontext() if made > fails else pytest.raises(type(error)):
        recover(attempt, ALIVE, lambda: 0, pause_s=0.001, **patience)
    assert len(attempts) == made


def test_nothing_is_tried_before_all_servers_answer() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        context = TaskContext(
            Task("worker", 0), ClusterSpec({"ps": (address,), "worker": ("127.0.0.1:2",)})
        )
        threading.Timer(0.3, server.listen).start()
        assert not answers(address)
        seen: list[bool] = []
        recover(lambda: seen.append(answers(address)), context, lambda: 0)
        assert seen == [True]


def test_waiting_for_servers_has_a_deadline_and_names_them() -> None:
    with pytest.raises(
        PsclustError, match=r"worker:0: no answer for 0 s from ps:0 \(127\.0\.0\.1:1\)"
    ):
        wait_for_peers(NOWHERE, 0.0)


def test_a_session_waits_for_the_tasks_it_uses_and_no_others() -> None:
    cluster = ClusterSpec({"ps": ("a:1",), "worker": ("a:2", "a:3"), "client": ("a:4",)})
    worker = session_config(TaskContext(Task("worker", 1), cluster, "between-graph"))
    client = session_config(TaskContext(Task("client", 0), cluster, "in-graph"))
    assert list(worker.device_filters) == ["/job:ps", "/job:worker/task:1"]
    assert list(client.device_filters) == ["/job:ps", "/job:client/task:0", "/job:worker"]
    assert worker.experimental.disable_thread_spinning


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(
            StartError, match=rf"worker:0: no TensorFlow server could be started on {address}"
        ):
            start_server(TaskContext(Task("worker", 0), ClusterSpec({"worker": (address,)})))
