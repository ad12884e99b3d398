"""One replica of a between-graph cluster: its graph, its sessions and its steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from psclust.replication.build_between_graph import BetweenGraph, build_between_graph
from psclust.replication.device_layout import Decided, DeviceLayout
from psclust.replication.sync.messages import Token
from psclust.replication.sync.participant import BarrierParticipant
from psclust.replication.tf_types import Session
from psclust.replication.variables.training_state import End
from psclust.train.between_graph.agreement import Agreement, refuse_unshared
from psclust.train.between_graph.stop_flag import StopFlag
from psclust.train.checkpoints.initializer import Initializer
from psclust.train.hooks.task_hooks import task_hooks
from psclust.train.job import Job
from psclust.train.model_report import report_model
from psclust.train.nan_guard import check_loss
from psclust.train.part_feeder import PartFeeder, Supply, feeding
from psclust.train.placed_graph import CANNOT_RUN, build_placed, without
from psclust.train.session import connect, open_session, session_config, start_server
from psclust.train.staleness_bound import StalenessBound, StepValues
from psclust.train.user_errors.step_errors import explained, no_data

LOG = logging.getLogger(__name__)

_CHIEF_DEADLINE_S = 300.0
_POLL_S = 0.1

Steps = Callable[..., Any] | BarrierParticipant
"""What makes a replica's steps in a session: a function, asynchronous, or its side of the
barrier."""


@dataclass(frozen=True, slots=True)
class Ready:
    """ended: an earlier process of this replica has ended its training. fresh: the variables are
    new, as the chief knows."""

    ended: bool
    fresh: bool = False


class Replica:
    """A worker that is not the chief; it trains in one session, or in several in a row if it loses
    servers."""

    def __init__(self, job: Job) -> None:
        context = job.context
        assert context.task is not None
        self.number = context.replicas.index(context.task)
        self._target = start_server(context)
        self.job = job
        self._build(job.context.layout)

    def _build(self, layout: DeviceLayout) -> None:
        config = self.job.program.config
        self.graph, self.built, layout = build_placed(self.job, layout, self._build_model)
        with self.job.building(self.graph):
            self.state = self.built.state
            # Each tower has a number among all towers, unless the towers of a worker share its data
            # and nothing else.
            numbered = not config.split_batch or config.moving_statistics == "sync"
            self.agreement = Agreement(
                self.built.tower.variables,
                layout,
                len(layout.devices) if numbered else None,
                self.built.streamed,
                self.job.program.parts if config.handed_out else None,
            )
            if self.job.context.is_chief:
                report_model(self.job.reporter, self.job.model_dir, self.built.tower, layout)
            self.hooks = task_hooks(
                self.job,
                self.built.towers,
                self.built.next_step,
                self.built.tower.loss,
                self.built.step.staleness if self.built.step else None,
            )
            self.variables = Initializer(self.built.tower.spec.scaffold)
            refuse_unshared(self.variables.all, layout)
            self._build_own()
            self.stop = StopFlag(self.state)
            self.parts = (
                PartFeeder(self.state.dispenser, [self.built.input], self.number, layout.client)
                if self.state.dispenser is not None
                else None
            )
            self._bound = self._staleness_bound()
            self._marked = tf.compat.v1.placeholder(tf.int32, [], name="replica")
            self._end = tf.compat.v1.placeholder(tf.int64, [], name="end")
            self._mark = self.state.mark(self._marked, self._end)
        self.graph.finalize()

    def _build_own(self) -> None:
        """Adds what only one replica has."""

    def _build_model(self, layout: DeviceLayout) -> BetweenGraph:
        context = self.job.context
        bounded, backups = context.max_staleness is not None, context.backup_workers
        return build_between_graph(
            self.job.program,
            layout,
            self.number,
            sync=context.sync,
            chief=context.is_chief,
            backups=backups,
            bounded=bounded,
        )

    def _staleness_bound(self) -> StalenessBound | None:
        context, ops = self.job.context, self.built.step
        if ops is None or context.max_staleness is None or len(context.replicas) < 2:
            return None
        return StalenessBound(self.state, self.number, ops.step, context.max_staleness)

    def attempt(self) -> None:
        """Trains in one session, to the end of the training."""
        config = session_config(self.job.context)
        try:
            with explained(self.graph), open_session(self._target, self.graph, config) as session:
                connect(session)
                decided = self.agree(session)
                if decided is None:
                    ready = self.prepare(session)
                    with feeding([self.parts] if self.parts is not None else []):
                        self.run(session, self._steps(session), ready)
                    return
        except CANNOT_RUN as reason:
            LOG.warning("%s", reason)
            self.job, decided = without(self.job, reason), None
        # Build the graph again, without kernels, or with the same variables in another order, each
        # cut as the chief's and where the chief has it.
        self._build(replace(self.job.context.layout, decided=decided or Decided()))
        self.attempt()

    def agree(self, session: Session) -> Decided | None:
        """The chief's cuts and placement, if this graph has the same variables otherwise. Raises
        PsclustError for other variables."""
        context = self.job.context
        return self.agreement.compare(
            session, str(context.task), str(context.chief), _CHIEF_DEADLINE_S
        )

    def prepare(self, session: Session) -> Ready:
        """Prepares the variables for a new session."""
        if self.built.participant is None:
            self.variables.await_chief(session, _CHIEF_DEADLINE_S)
        # Else it does not wait for variables here: the chief may not know yet that a ps has lost
        # them. It notices when this replica joins the barrier, and it sends no token before the
        # variables are there.
        self.variables.start_local(session)
        return Ready(self._has_ended(session))

    def run(self, session: Session, steps: Steps, ready: Ready) -> None:
        if not isinstance(steps, BarrierParticipant):
            self.hooks.start(session)
        self.train(session, steps, ready)
        leaving = self.is_leaving(session)
        if self.job.reporter.remarks and not leaving:
            LOG.info(
                "%s has ended its training%s", self.job.context.task, self.job.reporter.remarks
            )
        if not isinstance(steps, BarrierParticipant) and self.parts is None:
            self._await_saved(session)
        self.hooks.end(session)

    def _await_saved(self, session: Session) -> None:
        """Asynchronous: stays until the chief has saved the steps of this replica. Raises
        AbortedError, for another attempt, if a ps has lost them before."""
        task = self.job.context.task
        with self.job.reporter.during("waiting"):
            while (end := self.ends(session)[self.number]) is End.ENDED:
                time.sleep(_POLL_S)
        if end is End.TRAINS:
            raise tf.errors.AbortedError(
                None, None, f"with the last steps of {task}, which it makes again"
            )
        try:
            self.mark(session, self.number, End.LEFT)
        except tf.errors.OpError as error:
            LOG.debug("%s leaves: %s", task, error)

    def train(self, session: Session, steps: Steps, ready: Ready) -> None:
        """Steps until the data ends or the wanted step is reached, unless an earlier process of
        this replica did so."""
        if ready.ended:
            return
        self.job.reporter.phase("train")
        if isinstance(steps, BarrierParticipant):
            self._train_in_step(session, steps)
        else:
            self._train_alone(session, steps)

    def _steps(self, session: Session) -> Steps:
        if self.built.participant is not None:
            return BarrierParticipant(session, self.built.participant, self.hooks.callable)
        assert self.built.step is not None
        return self.hooks.callable(
            session, [*self.built.step.fetches, *(self._bound.fetches if self._bound else ())]
        )

    def after_step(self, session: Session, step: int) -> None:
        """Called after every asynchronous step."""

    def while_held(self, session: Session, step: int) -> None:
        """Called repeatedly while this replica, asynchronous, waits because it is too far ahead of
        another."""
        self.after_step(session, step)

    def _train_alone(self, session: Session, run: Callable[..., Any]) -> None:
        """Asynchronous: waits for no other replica, unless this one is too far ahead."""
        self.job.end_request.begin()
        if self.parts is not None:
            self.mark(session, self.number, End.TRAINS)
        self._start_input(session)
        bound, guard = self._bound, self.job.program.config.nan_guard
        step, lead = bound.look(session, 0.0) if bound else (self.step(session), 0)
        request = self.job.end_request
        while not (request.leaving or self.job.enough(step) or self.stop.poll(session)):
            if bound and bound.holds(lead):
                self.while_held(session, step)
                step, lead = bound.look(session)
                continue
            try:
                made = StepValues.of(*run())
            except tf.errors.OutOfRangeError:
                if self._has_more(session):
                    continue
                self._check_end(session)
                break
            step, lead = made.step, made.lead
            if self.parts is not None and self.parts.applied(made.parts):
                self.parts.restock()
            check_loss(guard, step, made.loss)
            self.job.reporter.step(step, made.loss, made.examples, made.staleness)
            self.after_step(session, step)
            if not request.leaving and self._is_to_stop():
                self.stop.set(session)
                break
        self._end_alone(session)

    def is_leaving(self, session: Session) -> bool:
        """Whether this process leaves though the training is not over, alone or, synchronous, with
        all others."""
        request = self.job.end_request
        request.settle()
        if self.parts is not None and self.job.context.sync and self.stop.is_to_leave(session):
            request.leaving = True
        return request.leaving

    def _end_alone(self, session: Session) -> None:
        """Asynchronous: this replica makes no further step. One whose parts were handed out need
        not stay: should a ps lose its last steps, others claim those parts again."""
        if self.parts is None:
            self.mark(session, self.number, End.ENDED)
            return
        self.parts.leave(session)
        self.mark(session, self.number, End.ABSENT)

    def _has_more(self, session: Session) -> bool:
        """When the input has ended: whether it has begun again, with other parts of the data.
        Asynchronous, while other replicas hold all that is left, one of them may leave some."""
        if self.parts is None:
            return False
        while (supply := self.parts.more()) is Supply.AWAITED and not self.job.context.sync:
            time.sleep(_POLL_S)
            step = self.step(session)
            self.while_held(session, step)
            if self.job.enough(step) or self.stop.poll(session) or self._is_to_stop():
                return False
            if self.job.end_request.leaving:
                return False
        return supply is Supply.HERE

    def _train_in_step(self, session: Session, participant: BarrierParticipant) -> None:
        """Synchronous: one gradient a token. The chief marks the replicas that have ended."""
        with closing(participant):
            token: Token | None = participant.join()
            if not self.job.context.is_chief:
                self.hooks.start(session)
            while token is not None:
                self._step_until_end(session, participant, token)
                token = participant.leave()
        if self.parts is not None and self.stop.is_to_leave(session):
            self.parts.leave(session)

    def _step_until_end(
        self, session: Session, participant: BarrierParticipant, token: Token
    ) -> None:
        """Steps with `token`, and with each that follows."""
        guard = self.job.program.config.nan_guard
        position = self._start_input(session)
        endless = bool(session.run(self.built.input.endless))
        while token.go:
            began = time.monotonic()
            try:
                made = participant.step()
            except tf.errors.OutOfRangeError:
                if self._has_more(session):
                    continue
                self._check_end(session)
                if self.job.program.config.drop_uneven:
                    # No further step gets a batch from every replica.
                    self.stop.set(session)
                return
            self.job.end_request.took(time.monotonic() - began)
            token = made.token
            position += self.state.batches
            if made.examples and made.applied:
                check_loss(guard, token.step, made.loss)
            if self.parts is not None and made.applied:
                part = made.part if made.examples else -1
                if self.parts.applied([part]):
                    self.parts.restock()
            self.job.reporter.step(token.step, made.loss, made.examples, barrier_s=made.waited_s)
            if self.job.end_request.leaving:
                self.stop.set(session, leave=True)
                return
            if self._is_to_stop():
                self.stop.set(session)
                return
            if not (made.applied or made.late or endless) and (
                self.parts is not None or position != self._position(session)
            ):
                # The gradient of this batch was not applied: read it again.
                position = self._start_input(session)

    def _is_to_stop(self) -> bool:
        """And all other replicas with it."""
        return self.hooks.stop_requested or self.job.end_request.received

    def step(self, session: Session) -> int:
        return int(session.run(self.state.now).global_step)

    def ends(self, session: Session) -> list[End]:
        """How far each replica is with its end."""
        if self.parts is not None:
            return [End(end) for end in session.run(self.state.done)]
        return [End(end) for end in session.run(self.state.now).done]

    def mark(self, session: Session, replica: int, end: End) -> None:
        session.run(self._mark, {self._marked: replica, self._end: end})

    def _has_ended(self, session: Session) -> bool:
        # The chief may be giving them values just now.
        missing = {variable.op.name for variable in self.variables.missing(session)}
        asked = (*self.state.now, self.state.done)
        known = missing.isdisjoint(variable.op.name for variable in asked)
        if not known or (end := self.ends(session)[self.number]) in (End.TRAINS, End.ABSENT):
            return False
        if end is End.SILENT:
            # It was only slow to start again.
            self.mark(session, self.number, End.TRAINS)
            return False
        # All have left: the chief is about to begin anew, first the ends, then the flag.
        if self.parts is not None and self.stop.is_to_leave(session):
            return False
        return self.parts is None or self.ends(session)[self.number] is not End.ABSENT

    def _start_input(self, session: Session) -> int:
        """Starts the input after the batches whose gradients have been applied; returns their
        number, or 0 if parts are handed out."""
        if self.parts is not None:
            self.parts.start(session)
            return 0
        position = self._position(session)
        session.run(self.built.input.initializer, {self.built.input.skip: position})
        return position

    def _check_end(self, session: Session) -> None:
        begun = self.parts.begun(session) if self.parts else self._position(session) > 0
        if not begun:
            raise no_data(f"the input of {self.job.context.task}")

    def _position(self, session: Session) -> int:
        return int(session.run(self.state.now).positions[self.number * self.state.inputs])
