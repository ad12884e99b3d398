"""What a run came to, from made-up events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from psclust.cli.summary import render_model, render_totals
from psclust.rundir.events_file import Record, record
from psclust.rundir.run_totals import RunTotals, run_totals


def progress(
    run_s: float,
    task: str,
    phase: str,
    step: int | None,
    seconds: dict[str, float],
    **metrics: float,
) -> Record:
    fields: dict[str, Any] = {
        "task": task,
        "host": "a",
        "attempt": 1,
        "phase": phase,
        "step": step,
        "loss": 0.5,
    }
    return {"run_s": run_s, **record("progress", **fields, metrics=metrics, seconds=seconds)}


RUN = [
    record("run", name="digits"),
    progress(2.0, "worker:1", "train", 0, {"start": 1.0}),
    progress(2.5, "worker:0", "train", 0, {"start": 1.5, "saving": 0.5}),
    record("restart", task="worker:1", reason="killed"),
    progress(7.0, "evaluator:0", "evaluate", 50, {}, accuracy=0.9, loss=0.3),
    progress(8.0, "evaluator:0", "evaluate", 90, {}, accuracy=0.8, loss=0.4, staleness=2.0),
    progress(
        9.0, "worker:0", "done", 100, {"start": 1.5, "train": 6.0, "saving": 1.5, "waiting": 2.0}
    ),
    progress(9.1, "worker:1", "done", 100, {"start": 1.0, "train": 6.0}),
]


def test_the_times_are_those_of_the_task_that_saves() -> None:
    totals = run_totals(RUN)
    assert (totals.steps, totals.restarts, totals.start_s) == (100, 1, 2.0)
    assert (totals.training_s, totals.saving_s, totals.waiting_s) == (3.0, 1.5, 2.0)


def test_steps_that_were_lost_with_a_ps_do_not_count() -> None:
    lost = progress(5.0, "worker:1", "done", 1103, {"train": 3.0})
    assert run_totals([*RUN[:4], lost, *RUN[4:]]).steps == 100
    # Before the model is saved nothing better is known.
    assert run_totals([*RUN[:4], lost]).steps == 1103


def test_of_an_interrupted_run_the_last_steps_count_that_were_reported() -> None:
    ends = [
        record("exit", task=f"worker:{number}", step=step) for number, step in enumerate((987, 986))
    ]
    totals = run_totals([*RUN[:4], *ends, record("exit", task="ps:0")])
    assert render_totals(totals)[0] == "987 steps"
    assert render_totals(RunTotals(steps=1)) == ["1 step"]


def test_the_best_evaluation_has_the_least_loss() -> None:
    totals = run_totals(RUN)
    assert (totals.metrics, totals.metrics_step) == ({"accuracy": 0.9, "loss": 0.3}, 50)
    without_loss = [
        progress(1.0, "worker:0", "done", step, {}, accuracy=step / 10) for step in (1, 2)
    ]
    assert run_totals(without_loss).metrics_step == 2


def test_the_model_is_where_the_task_that_saves_last_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    models = [
        {**each, "model": {"folder": f"/home/me/{number}"}} for number, each in enumerate(RUN[1:3])
    ]
    totals = run_totals([*models, *RUN[3:]])
    assert (totals.model_folder, totals.model_host) == ("/home/me/1", "a")
    assert render_model(totals) == " on a: ~/1"
    assert render_model(replace(totals, model_host="localhost")) == ": ~/1"


def test_a_run_that_reported_nothing_has_nothing_to_say() -> None:
    assert run_totals([record("run"), record("end")]) == RunTotals()
    assert render_totals(RunTotals()) == []


def test_the_lines_at_the_end_of_a_run() -> None:
    assert render_totals(run_totals(RUN)) == [
        "100 steps; best evaluation, at step 50: accuracy 0.9, loss 0.3",
        "start 2.0 s, training 3.0 s, waiting for tasks to end 2.0 s, saving 1.5 s, 1 restart",
    ]
    assert render_totals(RunTotals(restarts=2)) == ["2 restarts"]
