"""Training with one client: the towers of an in-graph cluster, or one process alone."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.in_graph import END_OF_DATA, InGraph, StepOps, build_in_graph
from psclust.train.checkpoint import Checkpoints
from psclust.train.job import Job, Saver, no_data
from psclust.train.session import open_session, recover, session_config, start_server
from psclust.train.variables import Source, Variables

LOG = logging.getLogger(__name__)

_POLL_S = 0.05


@dataclass(frozen=True)
class _Client:
    job: Job
    built: InGraph
    variables: Variables
    checkpoints: Checkpoints
    saver: Saver


def train_towers(job: Job) -> None:
    """Trains until the data of all towers or the wanted number of steps is used up, and leaves a checkpoint of the result."""
    layout = job.context.layout
    graph = job.new_graph()
    with graph.as_default():
        built = build_in_graph(job.program, layout, sync=job.context.sync)
        checkpoints = Checkpoints(tf.compat.v1.global_variables(), job.model_dir, layout.client)
        client = _Client(job, built, Variables(), checkpoints, Saver(checkpoints, job.options.save_s))
    graph.finalize()
    target = start_server(job.context)

    def attempt() -> None:
        with open_session(target, graph, session_config(job.context)) as session:
            _train(client, session)

    recover(attempt, job.context, lambda: job.reporter.steps)


def _train(client: _Client, session: Any) -> None:
    job, state = client.job, client.built.state
    if client.variables.prepare(session, client.checkpoints) is Source.INITIAL:
        client.saver.save(session, 0)
    step, positions = session.run([state.global_step, state.positions])
    session.run(
        [data.initializer for data in client.built.inputs],
        {data.skip: position for data, position in zip(client.built.inputs, positions, strict=True)},
    )
    job.reporter.phase("train", int(step))
    if not job.enough(step):
        if len(client.built.steps) == 1:
            _run_steps(client, session, client.built.steps[0], 0, saving=True)
        else:
            _run_threads(client, session)
    step = int(session.run(state.global_step))
    client.saver.save(session, step)
    LOG.info("trained to step %d", step)
    job.reporter.phase("save", step)


def _run_steps(client: _Client, session: Any, ops: StepOps, tower: int, *, saving: bool, stop: threading.Event | None = None) -> None:
    run = session.make_callable(ops.fetches())
    step = 0
    while not (stop and stop.is_set()):
        try:
            step, loss, examples = run()
        except tf.errors.OutOfRangeError as error:
            _check_end(client, session, tower, error)
            return
        except tf.errors.InvalidArgumentError as error:
            if END_OF_DATA in str(error.message):
                return
            raise
        client.job.reporter.step(int(step), float(loss), int(examples))
        if client.job.enough(step):
            return
        if saving:
            client.saver.maybe(session, int(step))


def _check_end(client: _Client, session: Any, tower: int, error: Any) -> None:
    """Raises UsageError where the end of data is the end of a tower that never had any."""
    replicas = client.job.context.replicas
    if len(client.built.steps) == 1 and len(replicas) > 1:
        # Towers that end are filled up, unless there is nothing to fill them with.
        found = re.search(r"tower_(\d+)/", str(error.message))
        raise no_data(f"the input of {replicas[int(found[1])]}" if found else "the input of a tower")
    if session.run(client.built.state.positions)[tower] == 0:
        raise no_data(f"the input of {replicas[tower]}" if replicas else "the input")


def _run_threads(client: _Client, session: Any) -> None:
    """One thread a tower, each with its own train op; this thread saves. The first error of any ends all."""
    errors: list[Exception] = []
    stop = threading.Event()

    def run(tower: int) -> None:
        try:
            _run_steps(client, session, client.built.steps[tower], tower, saving=False, stop=stop)
        except Exception as error:  # noqa: BLE001 - handed to the main thread, which raises it
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(tower,), name=f"tower {tower}", daemon=True) for tower in range(len(client.built.steps))]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not stop.wait(_POLL_S):
            client.saver.maybe(session, client.job.reporter.progress.step)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
