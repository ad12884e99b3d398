"""Looks at all tasks of a run from time to time, for `samples.jsonl`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from psclust.errors import PsclustError
from psclust.rundir.samples_file import Sample, SamplesFile, TaskSample
from psclust.supervise.reading import Reading
from psclust.transport.task_usage import Usage

_SHARE = 0.005  # the most that samples may take of a core here
_TASK_S = 0.1  # between looks, for each task: a bound for what they take of other hosts


class Sampler:
    """look: how far every task is and what it uses, now; may take seconds. took: gets the same."""

    def __init__(
        self,
        look: Callable[[], Sequence[Reading]],
        file: SamplesFile,
        took: Callable[[Sequence[Reading]], None] = lambda _: None,
    ) -> None:
        self._look = look
        self._took = took
        self._file = file
        self._last: Mapping[str, tuple[Usage, TaskSample]] = {}
        self._began = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Take samples until `stop` is set or the run has ended. A look that costs much, or is at
        many tasks, is repeated the less often."""
        pause_s = self._file.interval_s
        while not stop.wait(pause_s):
            before = time.process_time()
            try:
                readings = self._look()
                self._took(readings)
                self.take(readings, time.time(), time.monotonic() - self._began)
            except PsclustError:
                return
            pause_s = max(
                self._file.interval_s,
                (time.process_time() - before) / _SHARE,
                _TASK_S * len(readings),
            )

    def take(self, readings: Sequence[Reading], time_s: float, run_s: float) -> None:
        """time_s: seconds since the epoch. run_s: since the supervisor began."""
        # A process that has just ended uses no memory.
        alive = [
            (reading, reading.usage)
            for reading in readings
            if reading.usage is not None and reading.usage.memory
        ]
        now = {reading.task: (used, self._sample(reading, used)) for reading, used in alive}
        self._last = now
        if now:
            self._file.append(
                Sample(time_s, run_s, {task: sample for task, (_, sample) in now.items()})
            )

    def _sample(self, reading: Reading, usage: Usage) -> TaskSample:
        """With totals that go on from the last sample of the same attempt: what a connection has
        moved is forgotten when it closes."""
        used, last = self._last.get(
            reading.task, (Usage(sockets={}), TaskSample(reading.attempt, 0.0, 0, 0, 0))
        )
        if last.attempt != reading.attempt:
            used, last = Usage(sockets={}), TaskSample(reading.attempt, 0.0, 0, 0, 0)
        cpu_s, received, sent = usage.rates(used, 1.0)
        return replace(
            last,
            cpu_s=round((last.cpu_s or 0.0) + cpu_s, 2),
            memory=usage.memory,
            received=None if received is None else (last.received or 0) + int(received),
            sent=None if sent is None else (last.sent or 0) + int(sent),
            step=reading.step,
            loss=reading.loss,
            examples_per_s=reading.examples_per_s,
            staleness=reading.staleness,
        )
