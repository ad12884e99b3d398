"""Training with one client: the towers of an in-graph cluster, or those of a single process, which
step together."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from psclust.replication.build_in_graph import InGraph, build_in_graph
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.input.end_of_data import END_OF_DATA
from psclust.replication.tf_types import Graph, Session
from psclust.train.checkpoints.initializer import Initializer, Source
from psclust.train.checkpoints.patience import patiently
from psclust.train.checkpoints.saver import Saver
from psclust.train.hooks.session_hooks import Hooks
from psclust.train.hooks.task_hooks import task_hooks
from psclust.train.job import Job
from psclust.train.model_report import report_model
from psclust.train.moved_variables import MovedVariables
from psclust.train.nan_guard import check_loss
from psclust.train.part_feeder import PartFeeder, Supply, feeding
from psclust.train.placed_graph import CANNOT_RUN, build_placed, without
from psclust.train.session import connect, open_session, recover, session_config, start_server
from psclust.train.staleness_bound import StepValues, TowerStalenessBound
from psclust.train.tower_devices import cluster_devices, input_of
from psclust.train.user_errors.step_errors import explained, no_data

LOG = logging.getLogger(__name__)

_POLL_S = 0.05


@dataclass(frozen=True)
class _Client:
    job: Job
    graph: Graph
    layout: DeviceLayout
    built: InGraph
    variables: Initializer
    saver: Saver
    hooks: Hooks
    feeders: Sequence[PartFeeder]
    moved: MovedVariables


def train_in_graph(job: Job) -> None:
    """Trains until the data of all towers ends or the wanted step is reached, and writes a
    checkpoint of the result."""
    target = start_server(job.context)
    layout = _layout(job, target)
    client = _client(job, layout, target)

    def attempt() -> None:
        nonlocal client, job
        graph = client.graph
        try:
            with (
                explained(graph),
                open_session(target, graph, session_config(job.context)) as session,
                feeding(client.feeders),
            ):
                _train(client, session)
        except CANNOT_RUN as reason:
            LOG.warning("%s", reason)
            job = without(job, reason)
            client = _client(job, layout, target)
            attempt()

    recover(
        attempt,
        job.context,
        lambda: job.reporter.steps,
        is_to_leave=lambda: job.end_request.leaving,
    )


def _client(job: Job, layout: DeviceLayout, target: str) -> _Client:
    """Builds the graph."""
    sync, bounded = (
        job.context.sync or job.context.task is None,
        job.context.max_staleness is not None,
    )
    graph, built, layout = build_placed(
        job, layout, lambda layout: build_in_graph(job.program, layout, sync=sync, bounded=bounded)
    )
    with job.building(graph):
        report_model(job.reporter, job.model_dir, built.towers[0], layout)
        leading = built.steps[0]
        # If each tower has its own step, one step runs one tower.
        seen = built.towers if len(built.steps) == 1 else built.towers[:1]
        hooks = task_hooks(job, seen, leading.step, leading.loss, leading.staleness)
        saver = Saver(job, tf.compat.v1.global_variables(), layout.client)
        variables, feeders = Initializer(built.towers[0].spec.scaffold), _feeders(built, layout)
        moved = MovedVariables(job.context, target, variables.all)
        client = _Client(job, graph, layout, built, variables, saver, hooks, feeders, moved)
    graph.finalize()
    return client


def _feeders(built: InGraph, layout: DeviceLayout) -> Sequence[PartFeeder]:
    """One for each step; none if no parts are handed out."""
    dispenser = built.state.dispenser
    if dispenser is None:
        return ()
    inputs = [built.inputs] if len(built.steps) == 1 else [[each] for each in built.inputs]
    return [
        PartFeeder(dispenser, each, number, layout.client) for number, each in enumerate(inputs)
    ]


def _layout(job: Job, target: str) -> DeviceLayout:
    """The layout with a tower on every device; asks the servers of a cluster for their devices."""
    context, wanted = job.context, job.program.config.device_count
    if context.task is None:
        return context.layout
    config = session_config(context)
    found = recover(lambda: cluster_devices(target, context, config, wanted), context, lambda: 0)
    return replace(context, devices=found or context.devices).layout


def _train(client: _Client, session: Session) -> None:
    job, state = client.job, client.built.state
    job.end_request.begin()
    connect(session)
    source = client.variables.prepare(session, client.saver.checkpoints, fetch=client.moved.fetch)
    if source is Source.INITIAL:
        client.saver.save(session, 0)
    asked = [state.global_step, state.positions, *client.moved.described]
    step, positions, *_ = client.variables.start_local(session, asked)
    if source is Source.CHECKPOINT:
        LOG.info("resumed at step %d%s", step, job.context.which_attempt)
    elif source is Source.MOVED:
        LOG.info("the variables have moved; the training goes on at step %d", step)
    if client.feeders:
        # Of an earlier client, which may have had more towers.
        client.feeders[0].free_all(session)
        positions = [0] * len(client.built.steps)
    for feeder in client.feeders:
        feeder.start(session)
    if not client.feeders:
        _start_inputs(client, session, positions)
    client.hooks.start(session)
    client.saver.start(int(step))
    job.reporter.phase("train", int(step))
    if not job.enough(step) and not job.end_request.leaving:
        if len(client.built.steps) == 1:
            for made in _steps(client, session, 0):
                client.saver.maybe(session, made)
        else:
            clocks = [int(position) // state.batches for position in positions]
            _run_threads(client, session, TowerStalenessBound(clocks, job.context.max_staleness))
    if job.end_request.leaving:
        # The variables live on; the next client goes on with them.
        client.hooks.end(session)
        return
    step = int(session.run(state.global_step))
    patiently(lambda: client.saver.save(session, step))
    # First: a reader of the line may end the ps, which the run no longer needs.
    job.reporter.phase("save", step)
    LOG.info("trained to step %d%s", step, job.reporter.remarks)
    client.hooks.end(session)


def _start_inputs(client: _Client, session: Session, positions: Sequence[int]) -> None:
    """Each after its first batches, so many as its position says."""
    inputs = client.built.inputs
    session.run(
        [data.initializer for data in inputs],
        {data.skip: position for data, position in zip(inputs, positions, strict=True)},
    )


def _steps(
    client: _Client, session: Session, tower: int, stop: threading.Event | None = None
) -> Iterator[int]:
    """Makes steps of all towers, or of one that has its own, until the data ends, the wanted step
    is reached or `stop` is set; yields the global step after each but the last."""
    hooks = client.hooks if tower == 0 else Hooks()
    run = hooks.callable(session, client.built.steps[tower].fetches)
    while not (stop and stop.is_set()):
        try:
            made = StepValues.of(*run())
        except tf.errors.OutOfRangeError as error:
            if client.feeders and _has_more(client.feeders[tower], stop):
                continue
            _check_end(client, session, tower, error)
            return
        step = made.step
        if client.feeders and client.feeders[tower].applied(made.parts):
            client.feeders[tower].restock()
        check_loss(client.job.program.config.nan_guard, step, made.loss)
        client.job.reporter.step(step, made.loss, made.examples, made.staleness)
        request = client.job.end_request
        stopping = hooks.stop_requested or request.received or request.leaving
        if stopping and stop:
            stop.set()
        if client.job.enough(step) or stopping:
            return
        yield step


def _has_more(feeder: PartFeeder, stop: threading.Event | None) -> bool:
    """Whether an input that has ended has begun again with other parts of the data. While other
    towers hold all that is left, it waits for them to finish."""
    while (supply := feeder.more()) is Supply.AWAITED:
        if stop is None or stop.wait(_POLL_S):
            return False
    return supply is Supply.HERE


def _check_end(client: _Client, session: Session, tower: int, error: Any) -> None:
    """Raises UsageError if the tower whose data ended never had any."""
    built, workers, text = client.built, client.layout.workers, str(error.message)
    if END_OF_DATA in text or any(feeder.begun(session) for feeder in client.feeders):
        return
    found = re.search(r"tower_(\d+)/", text) if len(built.inputs) > len(built.steps) else None
    ended = int(found[1]) if found else tower
    # Padding continues an input that ends, unless it never had a batch.
    if built.padded or session.run(built.state.positions)[ended] == 0:
        raise no_data(
            input_of(workers[ended]) if len(built.inputs) == len(workers) else "the input"
        )


def _run_threads(client: _Client, session: Session, bound: TowerStalenessBound) -> None:
    """Runs one thread a tower, each with its own train op; this thread saves. The first error of
    any thread ends all."""
    stop = threading.Event()

    def run(tower: int) -> None:
        try:
            bound.wait(tower, stop)
            for _ in _steps(client, session, tower, stop):
                bound.advance(tower)
                bound.wait(tower, stop)
        finally:
            bound.end(tower)

    towers = range(len(client.built.steps))
    with ThreadPoolExecutor(len(towers), "tower") as threads:
        going = {threads.submit(run, tower) for tower in towers}
        try:
            while going and not stop.is_set():
                ended, going = wait(going, _POLL_S, FIRST_COMPLETED)
                for each in ended:
                    each.result()
                client.saver.maybe(session, client.job.reporter.global_step)
        finally:
            stop.set()
    for each in going:
        each.result()
