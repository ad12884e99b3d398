"""The evaluator task: evaluates every checkpoint while others train, and keeps a copy of the best.

It only reads the model's folder, so it needs no other task and no task waits for it. The chief
writes a mark there after the last checkpoint; the evaluator ends when it has evaluated that one.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from psclust.rundir.atomic_file import write_atomically
from psclust.spec.typed_json import build, parse_json
from psclust.train.checkpoints.checkpoint_folder import (
    CheckpointFolder,
    DamagedCheckpointError,
    Listed,
)
from psclust.train.job import Job
from psclust.train.offline.evaluation import Evaluation, EvaluationGraph, write_evaluation
from psclust.train.session import open_session

LOG = logging.getLogger(__name__)

_POLL_S = 0.5
_MARK = "training_done"
_RESULTS = "evaluations.jsonl"
_BEST = "best"


def mark_training(model_dir: Path, run: str | None, step: int | None) -> None:
    """Records for the evaluator that run `run` has ended its training at `step`; None: removes the
    mark, as it trains."""
    mark = model_dir / _MARK
    if step is None:
        mark.unlink(missing_ok=True)
        return
    write_atomically(mark, json.dumps({"run": run, "step": step}) + "\n")


def training_ended(model_dir: Path, run: str | None) -> bool:
    """Whether the chief of that run has written its last checkpoint."""
    with suppress(OSError, ValueError):
        mark = parse_json((model_dir / _MARK).read_text(encoding="utf-8"))
        return isinstance(mark, dict) and "run" in mark and mark["run"] == run
    return False


def evaluate_continuously(job: Job) -> None:
    """Evaluates checkpoints as they appear until the training has ended. Appends each result to
    `evaluations.jsonl` and copies the checkpoint with the lowest loss to `best`. Raises UsageError
    without held-out data."""
    folder = CheckpointFolder(job.model_dir)
    folder.check_writable()
    records = _Records(job.model_dir)
    built = EvaluationGraph(job)
    job.reporter.phase("evaluate")
    with open_session("", built.graph, None) as session:
        while True:
            # In this order: if the mark is there, so is the last checkpoint.
            ended = training_ended(job.model_dir, job.context.run)
            waiting = [entry for entry in folder.listed() if entry.step not in records.steps]
            # The run waits for an evaluator only for a short time once the training is over:
            # evaluate just the last checkpoint.
            for entry in waiting[-1:] if ended else waiting[:1]:
                _evaluate(job, built, session, entry, records)
            if ended:
                break
            if not waiting:
                time.sleep(_POLL_S)
    LOG.info(
        "%d checkpoints evaluated%s",
        len(records.steps),
        f"; the best: {records.best}" if records.best else "",
    )


def _evaluate(
    job: Job, built: EvaluationGraph, session: Any, entry: Listed, records: _Records
) -> None:
    records.steps.add(entry.step)
    try:
        built.restorer.restore(session, str(job.model_dir / entry.name))
    except DamagedCheckpointError as error:
        if list(job.model_dir.glob(f"{entry.name}.*")):
            raise
        LOG.info(
            "%s was removed before it could be evaluated (%s)",
            entry.name,
            type(error.__cause__).__name__,
        )
        return
    result = built.run(session)
    records.add(result, entry.name)
    LOG.info("%s", result)
    job.reporter.phase("evaluate", result.step, result.scalars())


class _Records:
    """The evaluations in a folder, including those of an earlier evaluator."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.steps: set[int] = set()
        self.best: Evaluation | None = None
        with suppress(FileNotFoundError):
            text = (directory / _RESULTS).read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                # An evaluator that was killed may leave half a line.
                with suppress(ValueError):
                    self._take(build(Evaluation, parse_json(line)))

    def add(self, result: Evaluation, name: str) -> None:
        with open(self._directory / _RESULTS, "a", encoding="utf-8") as file:
            file.write(result.as_json() + "\n")
        if self._take(result):
            self._keep_best(result, name)

    def _take(self, result: Evaluation) -> bool:
        self.steps.add(result.step)
        loss = result.scalars().get("loss")
        better = (
            loss is not None
            and loss == loss
            and (self.best is None or loss < self.best.metrics["loss"])
        )
        if better:
            self.best = result
        return better

    def _keep_best(self, result: Evaluation, name: str) -> None:
        """Copies the checkpoint to `best`, a model folder like any other; it appears when it is
        complete."""
        aside = self._directory / f"{_BEST}.new"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            for file in self._directory.glob(f"{name}.*"):
                shutil.copy2(file, aside / file.name)
        except FileNotFoundError:
            LOG.info("%s was removed before it could be kept as the best", name)
            shutil.rmtree(aside)
            return
        CheckpointFolder(aside).add(str(aside / name))
        write_evaluation(result, aside)
        shutil.rmtree(self._directory / _BEST, ignore_errors=True)
        aside.rename(self._directory / _BEST)
