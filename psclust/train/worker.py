"""Training as one of several clients: a worker, or the chief, of a between-graph cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.replication.barrier_ops import ChiefOps
from psclust.replication.between_graph import build_between_graph
from psclust.replication.in_graph import StepOps
from psclust.train.checkpoint import Checkpoints
from psclust.train.driver import Driver
from psclust.train.hooks import Hooks, training_hooks
from psclust.train.job import Job, Saver, no_data
from psclust.train.member import Member
from psclust.train.session import answers, close, open_session, recover, session_config, start_server
from psclust.train.stop import StopSign
from psclust.train.variables import Source, Variables

LOG = logging.getLogger(__name__)

_POLL_S = 0.1
_CHIEF_DEADLINE_S = 300.0
_REMIND_S = 10.0
_SILENT_S = 60.0


def train_worker(job: Job) -> None:
    """Trains this task's replica until its data or the wanted number of steps is used up. The chief stays until all others have ended
    and leaves a checkpoint of the result."""
    worker = _Worker(job)
    recover(worker.attempt, job.context, lambda: job.reporter.steps)


class _Worker:
    """One replica and its sessions: one, or several in a row where servers are lost."""

    def __init__(self, job: Job) -> None:
        context = job.context
        self._job = job
        self._replica = context.replicas.index(context.task)
        self._finished: set[int] = set()
        self._graph = job.new_graph()
        with self._graph.as_default():
            self._built = build_between_graph(job.program, context.layout, self._replica, sync=context.sync, chief=context.is_chief)
            spec, config = self._built.tower.spec, job.program.config
            self._hooks = Hooks([*training_hooks(spec, chief=context.is_chief), *job.hooks])
            self._variables = Variables(spec.scaffold)
            self._checkpoints = Checkpoints(self._variables.all, job.model_dir, context.layout.client, config)
            self._saver = Saver(self._checkpoints, job.save_s, config.save_steps)
            self._state = self._built.state
            self._stop = StopSign(self._state)
            self._who = tf.compat.v1.placeholder(tf.int32, [], name="who")
            self._ended = tf.compat.v1.placeholder(tf.int64, [], name="ended")
            self._mark_done = self._state.mark_done(self._who, self._ended)
        self._graph.finalize()
        self._target = start_server(context)

    def attempt(self) -> None:
        """One session: from preparing the variables to the end of the training."""
        with open_session(self._target, self._graph, session_config(self._job.context)) as session:
            if self._job.context.is_chief:
                self._lead(session)
            elif self._built.worker is None:
                self._variables.await_chief(session, _CHIEF_DEADLINE_S)
                self._hooks.start(session)
                self._train(session)
                self._hooks.end(session)
            else:
                # No waiting for variables here: the chief may not know yet that a ps has lost them. Joining the barrier tells it, and it
                # hands out no token before they are there.
                self._variables.start_local(session)
                self._train(session)
                self._hooks.end(session)

    def _lead(self, session: Any) -> None:
        source = self._variables.prepare(session, self._checkpoints)
        if source is Source.INITIAL:
            self._saver.save(session, 0)
        if source is Source.CHECKPOINT:
            # Back before the end of its own data, perhaps.
            self._finished.discard(self._replica)
            self._mark(session, self._replica, 0)
        # Whoever else had ended when a ps was lost does not come back to say so again.
        for replica in sorted(self._finished):
            self._mark(session, replica, 1)
        self._finished.update(self._done(session))
        self._hooks.start(session)
        self._saver.start(self._step(session))
        if self._built.chief is None:
            self._train(session)
            self._await_others(session)
        else:
            self._lead_in_step(session, self._built.chief)
        step = self._step(session)
        self._saver.save(session, step)
        LOG.info("trained to step %d", step)
        self._job.reporter.phase("save", step)
        self._hooks.end(session)

    def _train(self, session: Any) -> None:
        if self._has_ended(session):
            return
        self._job.reporter.phase("train")
        if self._built.step is not None:
            self._train_alone(session, self._built.step)
        if self._built.worker is not None:
            self._train_in_step(session, Member(session, self._built.worker, self._hooks))

    def _train_alone(self, session: Any, ops: StepOps) -> None:
        """Asynchronous: nobody waits for anybody."""
        self._start_input(session)
        run = self._hooks.callable(session, ops.fetches())
        step = self._step(session)
        while not self._job.enough(step) and not self._stop.seen(session):
            try:
                step, loss, examples = run()
            except tf.errors.OutOfRangeError:
                self._end_of_data(session)
                break
            self._job.reporter.step(int(step), float(loss), int(examples))
            if self._job.context.is_chief:
                self._saver.maybe(session, int(step))
            if self._hooks.stop_requested:
                self._stop.put_up(session)
                break
        self._mark(session, self._replica, 1)

    def _train_in_step(self, session: Any, member: Member) -> None:
        """Synchronous: one gradient a token. The chief's driver marks who has ended."""
        grant = member.join()
        if not self._job.context.is_chief:
            self._variables.start_scaffold(session)
            self._hooks.start(session)
        position = self._start_input(session)
        endless = bool(session.run(self._built.input.endless))
        while grant.go:
            try:
                grant, loss, examples = member.step()
            except tf.errors.OutOfRangeError:
                self._end_of_data(session)
                break
            position += 1
            self._job.reporter.step(grant.step, loss, examples)
            if self._hooks.stop_requested:
                self._stop.put_up(session)
                break
            if not grant.sure and not endless and position != self._position(session):
                # The batch was read for nothing; back to it.
                position = self._start_input(session)
        member.leave()

    def _lead_in_step(self, session: Any, ops: ChiefOps) -> None:
        """The synchronous chief: its own replica in this thread, the barrier in another."""
        driver = Driver(
            session,
            ops,
            len(self._job.context.replicas),
            self._step(session),
            finished=self._finished,
            enough=self._job.enough,
            left=lambda replica: self._left(session, replica, driver),
            updated=lambda step: self._saver.maybe(session, step),
        )
        if self._stop.is_up(session):
            driver.stop()
        driver.start()
        try:
            self._train(session)
            self._wait(lambda: driver.wait(_POLL_S), lambda: driver.awaited)
        except (tf.errors.OpError, RuntimeError) as error:
            # Whoever of the two lost a server first, the other is still waiting in the same session. A closed session is a
            # CancelledError in a running call and a RuntimeError in the next.
            first = driver.error
            close(session)
            driver.wait()
            if first is None:
                raise
            raise first from error
        if driver.error is not None:
            raise driver.error

    def _left(self, session: Any, replica: int, driver: Driver) -> None:
        self._finished.add(replica)
        self._mark(session, replica, 1)
        self._saver.maybe(session, self._step(session), event=True)
        if self._stop.is_up(session):
            driver.stop()

    def _await_others(self, session: Any) -> None:
        """The asynchronous chief, when its own data has ended."""
        silent_since: dict[int, float] = {}

        def ended() -> bool:
            time.sleep(_POLL_S)
            # Asks every ps: the others cannot go on before the chief knows that one has been lost.
            self._variables.missing(session)
            before = len(self._finished)
            self._finished.update(self._done(session))
            # What a replica has contributed in the end cannot be had again after it has gone.
            self._saver.maybe(session, self._step(session), event=len(self._finished) > before)
            self._give_up_on_silent(silent_since)
            return not self._others()

        self._wait(ended, self._others)

    def _give_up_on_silent(self, silent_since: dict[int, float]) -> None:
        """A worker whose mark was lost with a ps after it had ended would be awaited for ever."""
        for replica in self._others():
            task = self._job.context.replicas[replica]
            if answers(self._job.context.address(task)):
                silent_since.pop(replica, None)
            elif time.monotonic() - silent_since.setdefault(replica, time.monotonic()) > _SILENT_S:
                LOG.warning("%s has not answered for %.0f s and never said that it had ended; ending without it", task, _SILENT_S)
                self._finished.add(replica)

    def _others(self) -> Collection[int]:
        return set(range(len(self._job.context.replicas))) - self._finished - {self._replica}

    def _wait(self, ended: Callable[[], bool], awaited: Callable[[], Collection[int]]) -> None:
        remind = time.monotonic() + _REMIND_S
        while not ended():
            if time.monotonic() > remind:
                LOG.info("waiting for %s to end", ", ".join(str(self._job.context.replicas[replica]) for replica in sorted(awaited())))
                remind = time.monotonic() + _REMIND_S

    def _start_input(self, session: Any) -> int:
        """Starts the input after the batches whose gradients have been applied; returns how many those are."""
        position = self._position(session)
        session.run(self._built.input.initializer, {self._built.input.skip: position})
        return position

    def _end_of_data(self, session: Any) -> None:
        if self._position(session) == 0:
            raise no_data(f"the input of {self._job.context.task}")

    def _position(self, session: Any) -> int:
        return int(session.run(self._state.positions)[self._replica])

    def _mark(self, session: Any, replica: int, ended: int) -> None:
        session.run(self._mark_done, {self._who: replica, self._ended: ended})

    def _step(self, session: Any) -> int:
        return int(session.run(self._state.global_step))

    def _has_ended(self, session: Any) -> bool:
        """Whether an earlier process of this replica has ended its training; then nobody waits for it any more."""
        known = all(variable is not self._state.done for variable in self._variables.missing(session))
        return known and self._replica in self._done(session)

    def _done(self, session: Any) -> list[int]:
        return np.flatnonzero(session.run(self._state.done)).tolist()
