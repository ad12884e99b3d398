"""One replica of a between-graph cluster: its graph, its sessions and its steps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.replication.build_between_graph import build_between_graph
from psclust.replication.device_layout import Layout
from psclust.replication.update.step_ops import StepOps
from psclust.train.asynchronous.staleness_bound import StalenessBound, StepValues
from psclust.train.between_graph.agreement import Agreement, refuse_unshared
from psclust.train.between_graph.stop_flag import StopFlag
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.checkpoints.initializer import Initializer
from psclust.train.checkpoints.saver import Saver
from psclust.train.hooks.configured_hooks import configured_hooks
from psclust.train.hooks.session_hooks import Hooks, training_hooks
from psclust.train.job import Job
from psclust.train.nan_guard import check_loss
from psclust.train.placement_warning import warn_if_uneven
from psclust.train.session import open_session, session_config, start_server
from psclust.train.sync.participant import BarrierParticipant
from psclust.train.user_errors import explained, no_data

LOG = logging.getLogger(__name__)

_CHIEF_DEADLINE_S = 300.0


class Replica:
    """A worker that is not the chief, in one session, or in several in a row where servers are lost."""

    def __init__(self, job: Job) -> None:
        context = job.context
        assert context.task is not None
        self.job = job
        self.number = context.replicas.index(context.task)
        self._build(context.layout)
        self._target = start_server(context)

    def _build(self, layout: Layout) -> None:
        context, config = self.job.context, self.job.program.config
        self.graph = self.job.new_graph()
        with self.graph.as_default():
            self.built = build_between_graph(
                self.job.program, layout, self.number, sync=context.sync, chief=context.is_chief, backups=context.backup_workers
            )
            self.state = self.built.state
            # Each tower has a number among all towers, unless those of a worker share its data and nothing else.
            numbered = not config.split_batch or config.moving_statistics == "sync"
            self.agreement = Agreement(self.built.tower.variables, layout, len(layout.devices) if numbered else None)
            self.hooks = Hooks(self._hooks(layout))
            self.variables = Initializer(self.built.tower.spec.scaffold)
            refuse_unshared(self.variables.all, layout)
            self.checkpoints = Checkpoints(self.variables.all, self.job.model_dir, context.layout.client, config)
            self.saver = Saver(self.checkpoints, self.job.save_s, config.save_steps)
            self.stop = StopFlag(self.state)
            self._pace = self._own_pace()
            self._who = tf.compat.v1.placeholder(tf.int32, [], name="who")
            self._whether = tf.compat.v1.placeholder(tf.int64, [], name="whether")
            self._mark_done = self.state.mark_done(self._who, self._whether)
        self.graph.finalize()

    def _hooks(self, layout: Layout) -> list[Any]:
        tower, chief = self.built.tower, self.job.context.is_chief
        hooks = [*training_hooks(tower.spec, chief=chief), *self.job.hooks]
        if chief:
            warn_if_uneven(tower, layout)
            staleness = self.built.step.staleness if self.built.step else None
            hooks += configured_hooks(self.job, self.built.next_step, tower.loss, self.built.towers, staleness)
        return hooks

    def _own_pace(self) -> StalenessBound | None:
        context, ops = self.job.context, self.built.step
        if ops is None or context.max_staleness is None or len(context.replicas) < 2:
            return None
        return StalenessBound(self.state, self.number, ops.step, context.max_staleness)

    def attempt(self) -> None:
        """One session, to the end of the training."""
        config = session_config(self.job.context, self.job.program.config.wire_dtype)
        with explained(self.graph), open_session(self._target, self.graph, config) as session:
            placed = self.agree(session)
            if placed is None:
                self.run(session)
                return
        # The same variables in another order: they are where the chief has them.
        self._build(replace(self.job.context.layout, placed=placed))
        self.attempt()

    def agree(self, session: Any) -> Mapping[str, int] | None:
        """Where the chief has the variables, if that is elsewhere than this graph has them. Raises PsclustError for other variables."""
        context = self.job.context
        return self.agreement.compare(session, str(context.task), str(context.chief), _CHIEF_DEADLINE_S)

    def run(self, session: Any) -> None:
        if self.built.participant is None:
            self.variables.await_chief(session, _CHIEF_DEADLINE_S)
            self.hooks.start(session)
        else:
            # No waiting for variables here: the chief may not know yet that a ps has lost them. Joining the barrier tells it, and it
            # hands out no token before they are there.
            self.variables.start_local(session)
        self.train(session)
        if self.job.reporter.remarks:
            LOG.info("%s has ended its training%s", self.job.context.task, self.job.reporter.remarks)
        self.hooks.end(session)

    def train(self, session: Any) -> None:
        """Steps until the data or the wanted number of steps is used up, unless an earlier process of this replica did so."""
        if self._has_ended(session):
            return
        self.job.reporter.phase("train")
        if self.built.step is not None:
            self._train_alone(session, self.built.step)
        if self.built.participant is not None:
            self._train_in_step(session, BarrierParticipant(session, self.built.participant, self.hooks))

    def after_step(self, session: Any, step: int) -> None:
        """Called after every asynchronous step."""

    def while_held(self, session: Any, step: int) -> None:
        """Called again and again while this replica, asynchronous, is too far ahead of another to make a step."""
        self.after_step(session, step)

    def _train_alone(self, session: Any, ops: StepOps) -> None:
        """Asynchronous: nobody waits for anybody, unless it is too far ahead."""
        self._start_input(session)
        pace, guard = self._pace, self.job.program.config.nan_guard
        run = self.hooks.callable(session, [*ops.fetches, *(pace.fetches if pace else ())])
        step, lead = pace.look(session, 0.0) if pace else (self.step(session), 0)
        while not self.job.enough(step) and not self.stop.poll(session):
            if pace and pace.holds(lead):
                self.while_held(session, step)
                step, lead = pace.look(session)
                continue
            try:
                made = StepValues.of(*run())
            except tf.errors.OutOfRangeError:
                self._check_end(session)
                break
            step, lead = made.step, made.lead
            check_loss(guard, step, made.loss)
            self.job.reporter.step(step, made.loss, made.examples, made.staleness)
            self.after_step(session, step)
            if self.hooks.stop_requested:
                self.stop.set(session)
                break
        self.mark_done(session, self.number, True)

    def _train_in_step(self, session: Any, participant: BarrierParticipant) -> None:
        """Synchronous: one gradient a token. The chief marks who has ended."""
        grant = participant.join()
        if not self.job.context.is_chief:
            self.hooks.start(session)
        guard = self.job.program.config.nan_guard
        position = self._start_input(session)
        endless = bool(session.run(self.built.input.endless))
        while grant.go:
            try:
                grant, loss, examples = participant.step()
            except tf.errors.OutOfRangeError:
                self._check_end(session)
                if self.job.program.config.drop_uneven:
                    # No further step has a batch of every replica.
                    self.stop.set(session)
                break
            position += self.state.batches
            if examples and grant.sure:
                check_loss(guard, grant.step, loss)
            self.job.reporter.step(grant.step, loss, examples)
            if self.hooks.stop_requested:
                self.stop.set(session)
                break
            if not (grant.sure or grant.late or endless) and position != self._position(session):
                # The batch was read for nothing; back to it.
                position = self._start_input(session)
        participant.leave()

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
        return int(session.run(self.state.positions)[self.number * self.state.inputs])
