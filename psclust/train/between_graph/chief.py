"""The chief of a between-graph cluster: a replica that also initializes the variables, writes checkpoints and ends the training."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import closing
from functools import partial

import tensorflow as tf

from psclust.replication.sync.barrier_ops import CoordinatorOps, ParticipantOps
from psclust.replication.tf_types import Session
from psclust.train.between_graph.ended_replicas import EndedReplicas
from psclust.train.between_graph.replica import Ready, Replica, Steps
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.checkpoints.initializer import Source
from psclust.train.checkpoints.saver import Saver
from psclust.train.job import Job
from psclust.train.session import answers, close
from psclust.train.sync.coordinator import BarrierCoordinator, new_barrier
from psclust.train.sync.participant import BarrierParticipant
from psclust.train.sync.takeover import is_half_made, take_over
from psclust.train.sync.update_offer import UpdateOffer

LOG = logging.getLogger(__name__)

_POLL_S = 0.1
_LOOK_S = 1.0
_REMIND_S = 10.0
_SILENT_S = 60.0
# While others still train, a silent replica may only be slow to restart.
_SILENT_HELD_S = 300.0


class Chief(Replica):
    """The first replica; it trains like the others and stays until all have ended."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        run = str(job.context.run_dir) if job.context.run_dir else None
        self._ended = EndedReplicas(job.model_dir / "ended.json", run)
        self._next_look = 0.0
        self._silent_since: dict[int, float] = {}
        self._offer = UpdateOffer(self.number)

    def _build_own(self) -> None:
        job, config = self.job, self.job.program.config
        self.checkpoints = Checkpoints(self.variables.all, job.model_dir, job.context.layout.client, config)
        self.saver = Saver(self.checkpoints, job.save_s, config.save_steps, lambda: job.reporter.during("saving"))

    def run(self, session: Session, steps: Steps, ready: Ready) -> None:
        self.hooks.start(session)
        self.saver.start(self.step(session))
        if self.built.coordinator is None:
            self.train(session, steps, ready)
            self._await_others(session)
        else:
            self._lead_in_step(session, self.built.coordinator, steps, ready)
        step = self.step(session)
        self.saver.save(session, step)
        # First: a reader of the line may end the ps, which the run no longer needs.
        self.job.reporter.phase("save", step)
        LOG.info("trained to step %d%s", step, self.job.reporter.remarks)
        self.hooks.end(session)

    def participant(self, session: Session, ops: ParticipantOps) -> BarrierParticipant:
        coordinator = self.built.coordinator
        assert coordinator is not None
        self._offer = UpdateOffer(self.number)
        update = coordinator, self._offer
        return BarrierParticipant(session, ops, self.hooks, update, order=self.built.order, goes_on=lambda: not self._is_to_stop())

    def agree(self, session: Session) -> None:
        self.agreement.publish(session)

    def prepare(self, session: Session, setup: Session, thread: Executor) -> Ready:
        ops = self.built.coordinator
        if ops is not None and ops.stream is not None:
            take_over(setup, ops.stream)
        half_made = partial(is_half_made, setup, ops.marks) if ops is not None and ops.marks is not None else None
        source = self.variables.prepare(setup, self.checkpoints, session, half_made)
        saving = thread.submit(self.saver.save, setup, 0) if source is Source.INITIAL else None
        self.variables.start_local(setup, session)
        if source is Source.CHECKPOINT:
            # The checkpoint may be from before the end of the chief's data. The other replicas that ended have exited.
            self._ended.discard(self.number)
            self.mark_done(setup, self.number, done=False)
            LOG.info("resumed at step %d%s", self.step(setup), self.job.context.which_attempt)
        for replica in self._ended:
            self.mark_done(setup, replica, done=True)
        self._ended.add(self.done(setup))
        if saving is not None:
            saving.result()
        return Ready(self._has_ended(setup), fresh=source is Source.INITIAL)

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

    def _look(self, session: Session, step: int) -> None:
        self._next_look = time.monotonic() + _LOOK_S
        # The last updates of a replica that has exited could not be made again: save them.
        new = self._ended.add(self.done(session))
        self.saver.maybe(session, step, event=new)

    def _lead_in_step(self, session: Session, ops: CoordinatorOps, steps: Steps, ready: Ready) -> None:
        """Synchronous: runs the chief's replica in this thread, the barrier in another."""
        if self.hooks:
            # They may fetch the step that their run leads to, which only the plain step has.
            self._offer.close()
        barrier = new_barrier(ops, self.step(session), ended=list(self._ended), max_steps=self.job.options.max_steps, fresh=ready.fresh)
        coordinator = BarrierCoordinator(
            session,
            ops,
            barrier,
            left=lambda replica: self._left(session, replica, coordinator),
            updated=lambda step: self.saver.maybe(session, step),
            due=self.saver.is_due,
            dropped=lambda replica: self.job.reporter.dropped(),
            offer=self._offer,
        )
        if self.stop.is_set(session):
            coordinator.stop()
        coordinator.start()
        try:
            with closing(self._offer):
                self.train(session, steps, ready)
            self._wait(lambda: coordinator.wait(_POLL_S), lambda: coordinator.awaited)
        except (tf.errors.OpError, RuntimeError) as error:
            # Whichever thread lost a server first, the other is still waiting in the same session. Closing it raises CancelledError in a
            # running call and RuntimeError in the next.
            first = coordinator.error
            close(session)
            coordinator.wait()
            if first is None:
                raise
            raise first from error
        if coordinator.error is not None:
            raise coordinator.error

    def _left(self, session: Session, replica: int, coordinator: BarrierCoordinator) -> None:
        self.mark_done(session, replica, done=True)
        self._ended.add([replica])
        self.saver.maybe(session, self.step(session), event=True)
        if self.stop.is_set(session):
            coordinator.stop()

    def _await_others(self, session: Session) -> None:
        """Asynchronous: waits for the other replicas when the chief's data has ended."""

        def ended() -> bool:
            time.sleep(_POLL_S)
            # Asks every ps: the others cannot go on before the chief notices that one is lost.
            self.variables.missing(session)
            self._look(session, self.step(session))
            self._give_up_on_silent(session, _SILENT_S)
            return not self._others()

        self._wait(ended, self._others)

    def _give_up_on_silent(self, session: Session, patience_s: float) -> None:
        """Marks replicas that do not answer as ended: if a ps dies just after a worker set its done flag, the flag is lost, and the chief
        would wait for that worker for ever."""
        for replica in self._others():
            task = self.job.context.replicas[replica]
            if answers(self.job.context.address(task)):
                self._silent_since.pop(replica, None)
            elif time.monotonic() - self._silent_since.setdefault(replica, time.monotonic()) > patience_s:
                LOG.warning("%s has not answered for %.0f s and has not marked itself as ended; going on without it", task, patience_s)
                self._ended.add([replica])
                # Others may be waiting for it, with a bound on staleness.
                self.mark_done(session, replica, done=True)

    def _others(self) -> Collection[int]:
        return set(range(len(self.job.context.replicas))) - set(self._ended) - {self.number}

    def _wait(self, ended: Callable[[], bool], awaited: Callable[[], Collection[int]]) -> None:
        remind = time.monotonic() + _REMIND_S
        with self.job.reporter.during("waiting"):
            while not ended():
                if time.monotonic() > remind:
                    LOG.info("waiting for %s to end", ", ".join(str(self.job.context.replicas[replica]) for replica in sorted(awaited())))
                    remind = time.monotonic() + _REMIND_S
