"""The totals of a run: steps, metrics, seconds of each kind, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from psclust.rundir.events_file import Record

# In which a task may report steps that are lost with a ps afterwards.
_NOT_SAVED = ("start", "train")
_NOT_OF_AN_EVALUATION = ("staleness", "staleness_max", "late_gradients")


@dataclass(frozen=True, slots=True)
class RunTotals:
    """steps: of the model; None without a psclust program. metrics: of the evaluation with the
    least loss, else of the last one, at step `metrics_step`. start_s: until the first task trained;
    training_s, saving_s, waiting_s: of the task that saved, waiting for others to end; None:
    unknown. restarts: attempts that were decided on after the first. model_folder: of the
    checkpoints, on `model_host`."""

    steps: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    metrics_step: int | None = None
    start_s: float | None = None
    training_s: float | None = None
    saving_s: float | None = None
    waiting_s: float | None = None
    restarts: int = 0
    model_folder: str | None = None
    model_host: str | None = None


def run_totals(events: Iterable[Record]) -> RunTotals:
    """Times are those of the last attempt."""
    found = list(events)
    progress = [each for each in found if each["kind"] == "progress"]
    steps = [
        each["step"]
        for each in found
        if each["kind"] in ("progress", "exit") and each.get("step") is not None
    ]
    trained = next((each["run_s"] for each in progress if each["phase"] == "train"), None)
    # The chief, or the client: only it writes checkpoints.
    saver = next((each for each in reversed(progress) if "saving" in each["seconds"]), None)
    seconds: Mapping[str, float] = saver["seconds"] if saver else {}
    best = _best(progress)
    model = next((each for each in reversed(progress) if each.get("model")), None)
    return RunTotals(
        steps=saver["step"]
        if saver and saver["phase"] not in _NOT_SAVED
        else max(steps, default=None),
        metrics=_metrics(best) if best else {},
        metrics_step=best["step"] if best else None,
        start_s=trained,
        training_s=_training_s(progress, saver) if saver else None,
        saving_s=seconds.get("saving"),
        waiting_s=seconds.get("waiting"),
        restarts=sum(each["kind"] == "restart" for each in found),
        model_folder=model["model"]["folder"] if model else None,
        model_host=model["host"] if model else None,
    )


def _best(progress: Iterable[Record]) -> Record | None:
    evaluated = [
        each for each in progress if each["phase"] in ("evaluate", "done") and _metrics(each)
    ]
    with_loss = [each for each in evaluated if "loss" in each["metrics"]]
    return (
        min(with_loss, key=lambda each: float(each["metrics"]["loss"]))
        if with_loss
        else evaluated[-1]
        if evaluated
        else None
    )


def _metrics(record: Record) -> dict[str, float]:
    return {
        name: value
        for name, value in record["metrics"].items()
        if name not in _NOT_OF_AN_EVALUATION
    }


def _training_s(progress: Iterable[Record], last: Record) -> float | None:
    """The time of the phase `train`, without what was spent in it on saving and waiting."""
    same = (
        each
        for each in progress
        if (each["task"], each["attempt"], each["phase"])
        == (last["task"], last["attempt"], "train")
    )
    began = next(same, None)
    if began is None or "train" not in last["seconds"]:
        return None
    others: float = sum(
        last["seconds"].get(kind, 0.0) - began["seconds"].get(kind, 0.0)
        for kind in ("saving", "waiting")
    )
    return max(0.0, float(last["seconds"]["train"]) - others)
