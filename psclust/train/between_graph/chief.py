"""The chief of a between-graph cluster: a replica that also initializes the variables, writes
checkpoints and ends the training."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication.close_session import close
from psclust.replication.sync.coordinator import BarrierCoordinator, new_barrier
from psclust.replication.sync.coordinator_ops import CoordinatorOps
from psclust.replication.sync.stream_run import take_over
from psclust.replication.tf_types import Session
from psclust.replication.variables.training_state import DONE, End
from psclust.train.between_graph.ended_replicas import EndedReplicas
from psclust.train.between_graph.replica import Ready, Replica, Steps
from psclust.train.checkpoints.initializer import Source
from psclust.train.checkpoints.patience import patiently
from psclust.train.checkpoints.saver import Saver
from psclust.train.job import Job
from psclust.train.moved_variables import MovedVariables
from psclust.train.part_feeder import SILENT_S
from psclust.train.session import answers

LOG = logging.getLogger(__name__)

_POLL_S = 0.1
_LOOK_S = 1.0
_REMIND_S = 10.0
_SILENT_S = 60.0
# While others still train, a silent replica may only be slow to restart.
_SILENT_HELD_S = 300.0
# For the others to read that their steps are saved; they ask ten times a second.
_LEAVE_S = 10.0


class Chief(Replica):
    """The first replica; it trains like the others and stays until all have ended."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        run = str(job.context.run_dir) if job.context.run_dir else None
        self._ended = EndedReplicas(job.model_dir / "ended.json", run)
        # Replicas that ended, and whose last steps could not be written so far.
        self._unsaved: set[int] = set()
        self._next_look = 0.0
        self._silent_since: dict[int, float] = {}

    def _build_own(self) -> None:
        self.saver = Saver(self.job, self.variables.all, self.job.context.layout.client)
        self.moved = MovedVariables(self.job.context, self._target, self.variables.all)

    def run(self, session: Session, steps: Steps, ready: Ready) -> None:
        self.hooks.start(session)
        self.saver.start(self.step(session))
        if self.built.coordinator is None:
            self.train(session, steps, ready)
            if not self.job.end_request.leaving:
                self._await_others(session)
        else:
            self._lead_in_step(session, self.built.coordinator, steps, ready)
        if self.is_leaving(session):
            # The variables live on; the next chief goes on with them.
            self.hooks.end(session)
            return
        ended = self._unsaved | self._just_ended(session)
        step = self.step(session)
        patiently(lambda: self.saver.save(session, step))
        self._count(session, ended)
        if self.built.coordinator is None and self.parts is None:
            self._await_leave(session)
        self._refuse_silent(session, step)
        # First: a reader of the line may end the ps, which the run no longer needs.
        self.job.reporter.phase("save", step)
        LOG.info("trained to step %d%s", step, self.job.reporter.remarks)
        self.hooks.end(session)

    def agree(self, session: Session) -> None:
        self.agreement.publish(session)

    def prepare(self, session: Session) -> Ready:
        ops = self.built.coordinator
        if ops is not None and ops.stream is not None:
            take_over(session, ops, ops.stream)
        source = self.variables.prepare(
            session,
            self.saver.checkpoints,
            lambda: ops is not None and bool(ops.marks.half_made(session)),
            lambda lost: self._undo_ends(session, lost),
            self.moved.fetch,
        )
        if source is Source.INITIAL:
            self.saver.save(session, 0)
        self.variables.start_local(session, self.moved.described)
        if self.parts is not None and ops is not None:
            # All others have ended before, also those killed as they were to leave.
            self.parts.vacate(session, len(self.job.context.replicas))
        if self.parts is not None and self.stop.is_to_leave(session):
            self._begin_anew(session)
        if source is Source.CHECKPOINT:
            # The checkpoint may be from before the end of the chief's data.
            self._ended.become(self._ended.numbers - {self.number})
            self.mark(session, self.number, End.TRAINS)
            LOG.info("resumed at step %d%s", self.step(session), self.job.context.which_attempt)
        elif source is Source.MOVED:
            LOG.info(
                "the variables have moved; the training goes on at step %d", self.step(session)
            )
        ends = self.ends(session)
        for replica in self._ended.numbers:
            if ends[replica] is End.TRAINS:
                self.mark(session, replica, End.SAVED)
        return Ready(self._has_ended(session), fresh=source is Source.INITIAL)

    def _begin_anew(self, session: Session) -> None:
        """After all replicas have left together: there may be others now."""
        self._ended.become(())
        for replica, end in enumerate(self.ends(session)):
            if end is not End.ABSENT:
                self.mark(session, replica, End.ABSENT)
        self.stop.clear(session)

    def after_step(self, session: Session, step: int) -> None:
        """Asynchronous: once a second, checks which replicas have ended."""
        if time.monotonic() >= self._next_look:
            self._look(session, step)
        else:
            self.saver.maybe(session, step)

    def while_held(self, session: Session, step: int) -> None:
        if time.monotonic() >= self._next_look:
            self._look(session, step)
            self._give_up_on_silent(session, _SILENT_HELD_S)

    def _undo_ends(self, session: Session, lost: Collection[str]) -> None:
        """Before a checkpoint is restored: an end of which it lacks steps does not count. Raises
        PsclustError if that replica has exited. lost: the names of the variables without a
        value."""
        gone = self._unsaved - {self.number} if self.built.coordinator is not None else set()
        if gone:
            names = ", ".join(str(self.job.context.replica(replica)) for replica in sorted(gone))
            raise PsclustError(
                f"a ps is lost, and with it the last steps of {names}, "
                "whose training had ended: no checkpoint could be written since. "
                "Start the training again with this --model-dir; it resumes at the last checkpoint"
            )
        self._unsaved.clear()
        # Else it starts without a mark.
        if DONE not in lost:
            known = self._ended.numbers
            for replica, end in enumerate(self.ends(session)):
                if end in (End.ENDED, End.SAVED, End.LEFT) and replica not in known:
                    self.mark(session, replica, End.TRAINS)

    def _look(self, session: Session, step: int) -> None:
        """Saves the last steps of replicas that have ended, then lets them go."""
        self._next_look = time.monotonic() + _LOOK_S
        if self.parts is not None:
            self._sweep(session)
        ended = self._just_ended(session)
        new = bool(ended - self._unsaved)
        # Not before: the checkpoint must be of a step after their last.
        step = self.step(session) if new else step
        self._unsaved |= ended
        if self.saver.maybe(session, step, event=new):
            self._count(session, ended)

    def _sweep(self, session: Session) -> None:
        """Asynchronous: gives what silent replicas hold to others."""
        assert self.parts is not None
        for replica in self.parts.sweep(session):
            LOG.warning(
                "%s has not been heard of for %.0f s; its parts of the data go to others",
                self.job.context.replica(replica),
                SILENT_S,
            )
            self.mark(session, replica, End.ABSENT)

    def _just_ended(self, session: Session) -> set[int]:
        """The other replicas that stay until a checkpoint has their steps."""
        return {replica for replica, end in enumerate(self.ends(session)) if end is End.ENDED} - {
            self.number
        }

    def _count(self, session: Session, ended: Collection[int]) -> None:
        """A checkpoint has all steps of the replicas that `ended`. Recorded first: if the chief
        dies in between, they are not awaited. On request (SIGUSR1) all end before their time, and
        train again if the run goes on from this checkpoint."""
        self._unsaved = self._unsaved - set(ended)
        self._ended.become(
            () if self.job.end_request.received else self._ended.numbers.union(ended)
        )
        for replica in ended:
            self.mark(session, replica, End.SAVED)

    def _lead_in_step(
        self, session: Session, ops: CoordinatorOps, steps: Steps, ready: Ready
    ) -> None:
        """Synchronous: runs the chief's replica in this thread, the barrier in another."""
        over = (End.ENDED, End.SAVED, End.LEFT, End.SILENT)
        ended = [replica for replica, end in enumerate(self.ends(session)) if end in over]
        barrier = new_barrier(
            ops,
            self.step(session),
            ended=ended,
            max_steps=self.job.options.max_steps,
            fresh=ready.fresh,
        )
        coordinator = BarrierCoordinator(
            session,
            ops,
            barrier,
            left=lambda replica: self._left(session, replica, coordinator),
            updated=lambda step: self._updated(session, step),
            dropped=lambda replica: self.job.reporter.dropped(),
        )
        if self.stop.is_set(session):
            coordinator.stop()
        coordinator.start()
        try:
            self.train(session, steps, ready)
            self._wait(lambda: coordinator.wait(_POLL_S), lambda: coordinator.awaited)
        except (tf.errors.OpError, RuntimeError) as error:
            # Whichever thread lost a server first, the other is still waiting in the same session.
            # Closing it raises CancelledError in a running call and RuntimeError in the next.
            first = coordinator.error
            close(session)
            coordinator.wait()
            if first is None:
                raise
            raise first from error
        if coordinator.error is not None:
            raise coordinator.error

    def _left(self, session: Session, replica: int, coordinator: BarrierCoordinator) -> None:
        """Synchronous: saves the last steps of a replica before it may exit."""
        if self.parts is not None and self.stop.is_to_leave(session):
            coordinator.stop()
            return
        self._unsaved.add(replica)
        if self.saver.maybe(session, self.step(session), event=True):
            self._count(session, self._unsaved)
        else:
            self.mark(session, replica, End.ENDED)
        if self.stop.is_set(session):
            coordinator.stop()

    def _updated(self, session: Session, step: int) -> None:
        if self.saver.maybe(session, step):
            self._count(session, self._unsaved)

    def _await_others(self, session: Session) -> None:
        """Asynchronous: waits for the other replicas when the chief's data has ended."""

        def ended() -> bool:
            time.sleep(_POLL_S)
            # Asks every ps: the others cannot go on before the chief notices that one is lost.
            self.variables.missing(session)
            self._look(session, self.step(session))
            self._give_up_on_silent(session, _SILENT_S)
            return not self._others(session)

        self._wait(ended, lambda: self._others(session))

    def _give_up_on_silent(self, session: Session, patience_s: float) -> None:
        """Goes on without replicas that do not answer: one that will not start again would be
        awaited for ever, also by the others if there is a bound on staleness."""
        if self.parts is not None:
            return  # see `_sweep`
        for replica in self._others(session):
            task = self.job.context.replica(replica)
            if answers(self.job.context.address(task)):
                self._silent_since.pop(replica, None)
            elif (
                time.monotonic() - self._silent_since.setdefault(replica, time.monotonic())
                > patience_s
            ):
                LOG.warning(
                    "%s has not answered for %.0f s and has not marked itself as "
                    "ended; going on without it",
                    task,
                    patience_s,
                )
                self.mark(session, replica, End.SILENT)

    def _others(self, session: Session) -> Collection[int]:
        """The other replicas that still train."""
        return [
            replica
            for replica, end in enumerate(self.ends(session))
            if end is End.TRAINS and replica != self.number
        ]

    def _await_leave(self, session: Session) -> None:
        """Waits until the others know that they may exit: they need this replica if a ps is lost
        before."""
        limit = time.monotonic() + _LEAVE_S
        while self._leaving(session) and time.monotonic() < limit:
            time.sleep(_POLL_S / 2)

    def _leaving(self, session: Session) -> bool:
        """Whether a replica has not read yet that its steps are saved."""
        context = self.job.context
        saved = [
            context.replica(replica)
            for replica, end in enumerate(self.ends(session))
            if end is End.SAVED
        ]
        return any(answers(context.address(task)) for task in saved)

    def _refuse_silent(self, session: Session, step: int) -> None:
        """Raises PsclustError if the training has gone on without a replica that had steps to
        make."""
        silent = [
            self.job.context.replica(replica)
            for replica, end in enumerate(self.ends(session))
            if end is End.SILENT
        ]
        if silent and not self.job.enough(step) and not self.stop.is_set(session):
            raise PsclustError(
                f"the training has ended at step {step} without the rest "
                f"of {', '.join(map(str, silent))}, which did not answer. "
                "Start it again with this --model-dir; it makes the steps that are missing"
            )

    def _wait(self, ended: Callable[[], bool], awaited: Callable[[], Collection[int]]) -> None:
        remind = time.monotonic() + _REMIND_S
        with self.job.reporter.during("waiting"):
            while not ended():
                if time.monotonic() > remind:
                    LOG.info(
                        "waiting for %s to end",
                        ", ".join(
                            str(self.job.context.replica(replica)) for replica in sorted(awaited())
                        ),
                    )
                    remind = time.monotonic() + _REMIND_S
