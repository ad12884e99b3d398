"""One replica of a between-graph cluster: its graph, its sessions and its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from psclust.replication.between_graph import build_between_graph
from psclust.replication.in_graph import StepOps
from psclust.train.checkpoint import Checkpoints
from psclust.train.job import Job, Saver, no_data
from psclust.train.member import Member
from psclust.train.session import open_session, session_config, start_server
from psclust.train.variables import Variables

_CHIEF_DEADLINE_S = 300.0


class Replica:
    """A worker that is not the chief, in one session, or in several in a row where servers are lost."""

    def __init__(self, job: Job) -> None:
        context = job.context
        assert context.task is not None
        self.job = job
        self.number = context.replicas.index(context.task)
        self.graph = job.new_graph()
        with self.graph.as_default():
            self.built = build_between_graph(job.program, context.layout, self.number, sync=context.sync, chief=context.is_chief)
            self.state = self.built.state
            self.variables = Variables()
            self.checkpoints = Checkpoints(self.variables.all, job.model_dir, context.layout.client)
            self.saver = Saver(self.checkpoints, job.options.save_s)
            self._who = tf.compat.v1.placeholder(tf.int32, [], name="who")
            self._whether = tf.compat.v1.placeholder(tf.int64, [], name="whether")
            self._mark_done = self.state.mark_done(self._who, self._whether)
        self.graph.finalize()
        self._target = start_server(context)

    def attempt(self) -> None:
        """One session, to the end of the training."""
        with open_session(self._target, self.graph, session_config(self.job.context)) as session:
            self.run(session)

    def run(self, session: Any) -> None:
        if self.built.worker is None:
            self.variables.await_chief(session, _CHIEF_DEADLINE_S)
        else:
            # No waiting for variables here: the chief may not know yet that a ps has lost them. Joining the barrier tells it, and it
            # hands out no token before they are there.
            self.variables.start_local(session)
        self.train(session)

    def train(self, session: Any) -> None:
        """Steps until the data or the wanted number of steps is used up, unless an earlier process of this replica did so."""
        if self._has_ended(session):
            return
        self.job.reporter.phase("train")
        if self.built.step is not None:
            self._train_alone(session, self.built.step)
        if self.built.worker is not None:
            self._train_in_step(session, Member(session, self.built.worker))

    def after_step(self, session: Any, step: int) -> None:
        """Called after every asynchronous step."""

    def _train_alone(self, session: Any, ops: StepOps) -> None:
        """Asynchronous: nobody waits for anybody."""
        self._start_input(session)
        run = session.make_callable(ops.fetches())
        step = self.step(session)
        while not self.job.enough(step):
            try:
                step, loss, examples = run()
            except tf.errors.OutOfRangeError:
                self._check_end(session)
                break
            self.job.reporter.step(int(step), float(loss), int(examples))
            self.after_step(session, int(step))
        self.mark_done(session, self.number, True)

    def _train_in_step(self, session: Any, member: Member) -> None:
        """Synchronous: one gradient a token. The chief marks who has ended."""
        grant = member.join()
        position = self._start_input(session)
        endless = bool(session.run(self.built.input.endless))
        while grant.go:
            try:
                grant, loss, examples = member.step()
            except tf.errors.OutOfRangeError:
                self._check_end(session)
                break
            position += 1
            self.job.reporter.step(grant.step, loss, examples)
            if not grant.sure and not endless and position != self._position(session):
                # The batch was read for nothing; back to it.
                position = self._start_input(session)
        member.leave()

    def step(self, session: Any) -> int:
        return int(session.run(self.state.global_step))

    def done(self, session: Any) -> list[int]:
        """The replicas that are marked as having ended."""
        return np.flatnonzero(session.run(self.state.done)).tolist()

    def mark_done(self, session: Any, replica: int, whether: bool) -> None:
        session.run(self._mark_done, {self._who: replica, self._whether: int(whether)})

    def _has_ended(self, session: Any) -> bool:
        known = all(variable is not self.state.done for variable in self.variables.missing(session))
        return known and self.number in self.done(session)

    def _start_input(self, session: Any) -> int:
        """Starts the input after the batches whose gradients have been applied; returns how many those are."""
        position = self._position(session)
        session.run(self.built.input.initializer, {self.built.input.skip: position})
        return position

    def _check_end(self, session: Any) -> None:
        if self._position(session) == 0:
            raise no_data(f"the input of {self.job.context.task}")

    def _position(self, session: Any) -> int:
        return int(session.run(self.state.positions)[self.number])
