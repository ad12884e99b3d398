"""Session hooks and scaffolds of model functions, in every kind of training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import toys
from ways import ALONE, Train, ways

import psclust
from beds.tiers import longer
from psclust.errors import UsageError
from psclust.testing.wait import wait_until
from psclust.train.hooks.session_hooks import Hooks

pytestmark = pytest.mark.tensorflow


class Recorder(tf.compat.v1.train.SessionRunHook):
    """Writes down what it is called for, and what it fetched."""

    def __init__(self, log: list[str], name: str) -> None:
        self._log, self._name = log, name

    def begin(self) -> None:
        self._step = tf.compat.v1.train.get_global_step()
        self._log.append(f"{self._name} begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._log.append(f"{self._name} session")

    def before_run(self, run_context: Any) -> Any:
        assert len(run_context.original_args.fetches) >= 2
        return tf.compat.v1.train.SessionRunArgs({"step": self._step})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert run_values.results["step"] >= 0
        self._log.append(f"{self._name} run in {threading.current_thread().name}")

    def end(self, session: Any) -> None:
        self._log.append(f"{self._name} end at {session.run(self._step)}")


def _with(**fields: Callable[[], Any]) -> Any:
    """The toy that counts gradients, with more fields in its spec, each made by a function inside
    the model function."""

    def model_fn(features: Any, mode: str, params: dict[str, Any]) -> Any:
        return toys.tally.model_fn(features, mode, params)._replace(
            **{name: make() for name, make in fields.items()}
        )

    return psclust.Program(
        model_fn, toys.tally.input_fn, toys.tally.optimizer_fn, params=toys.TALLY | {"batches": 20}
    )


@ways(ALONE, ("between-graph", True))
def test_hooks_are_called_around_every_step(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    log: list[str] = []
    program = _with(
        training_hooks=lambda: [Recorder(log, "all")],
        training_chief_hooks=lambda: [Recorder(log, "chief")],
    )
    trained = train_here(program, replication, sync=sync, here=True)
    clients = 2 if replication == "between-graph" else 1
    assert [entry for entry in log if entry.endswith("begin")].count("all begin") == clients
    assert log.count("chief begin") == log.count("chief session") == 1
    assert log.count("all session") == clients
    runs = [entry for entry in log if entry.startswith("all run")]
    assert len(runs) == 20 * clients
    assert len([entry for entry in log if entry.startswith("chief run")]) == 20
    assert f"chief end at {trained.step}" in log
    assert (set(runs) == {"all run in tower_0"}) is (replication == "in-graph" and not sync)


@ways(ALONE, ("between-graph", True))
def test_one_hook_of_the_chief_that_requests_a_stop_ends_the_training_of_all(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    program = _with(training_chief_hooks=lambda: [tf.compat.v1.train.StopAtStepHook(last_step=7)])
    program = program.with_params({"batches": 100000})
    trained = train_here(program, replication, sync=sync)
    if sync or replication is None:
        assert trained.step == 7
        assert trained.values["dense"].sum() == pytest.approx(7.0)
    else:
        assert 7 <= trained.step < 100000


@ways(ALONE, ("between-graph", True))
def test_the_error_of_a_hook_comes_through(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    class Failing(tf.compat.v1.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            raise RuntimeError("the loss is no number")

    with pytest.raises(RuntimeError, match="the loss is no number"):
        train_here(_with(training_chief_hooks=lambda: [Failing()]), replication, sync=sync)


def test_a_hook_of_another_worker_stops_all_at_a_whole_step(train_here: Train) -> None:
    made: list[Any] = []

    def hooks() -> list[Any]:
        # Both workers build their graphs at the same time; only one of them gets the hook.
        made.append(None)
        return [tf.compat.v1.train.StopAtStepHook(last_step=7)] if len(made) == 1 else []

    trained = train_here(_with(training_hooks=hooks), "between-graph", sync=True)
    assert trained.step == 7
    assert trained.tally == [3.5, 3.5, 0.0, 0.0]


def test_tensorflows_own_hooks_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train = tf.compat.v1.train
    tf.get_logger().setLevel("INFO")
    tf.get_logger().propagate = True
    log: list[str] = []
    hooks = lambda: [  # noqa: E731
        train.LoggingTensorHook({"the step": tf.compat.v1.train.get_global_step()}, every_n_iter=5),
        train.StepCounterHook(every_n_steps=5, output_dir=str(tmp_path / "events")),
        train.ProfilerHook(save_steps=10, output_dir=str(tmp_path / "profile")),
    ]
    assert _with(training_hooks=hooks).train(tmp_path, hooks=[Recorder(log, "given")]) == 20
    assert log.count("given run in MainThread") == 20
    assert "the step = " in caplog.text
    assert list((tmp_path / "events").iterdir())
    assert list((tmp_path / "profile").iterdir())


def test_evaluation_and_prediction_have_their_hooks(tmp_path: Path) -> None:
    log: list[str] = []

    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        spec = toys.line.model_fn(
            features, features["x"][:, 0] if labels is None else labels, mode, params
        )
        return spec._replace(
            evaluation_hooks=[Recorder(log, "eval")], prediction_hooks=[Recorder(log, "predict")]
        )

    program = psclust.Program(
        model_fn, toys.line.input_fn, toys.line.optimizer_fn, params=toys.LINE
    )
    program.train(tmp_path)
    assert log == []
    program.evaluate(tmp_path)
    assert log == ["eval begin", "eval session", *["eval run in MainThread"] * 9, "eval end at 9"]


def test_something_that_is_no_hook_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'stop' is not a session hook"):
        _with(training_hooks=lambda: ["stop"]).train(tmp_path)


def _scaffold(called: list[str], before: Callable[[], object] = lambda: None) -> Any:
    """Sets the first element of `dense` to 5 with its init_op, adds 1 with its init_fn, after a
    call of `before`, and counts sessions in a local variable."""
    v1 = tf.compat.v1
    dense = next(variable for variable in v1.global_variables() if variable.op.name == "dense")
    value = v1.placeholder(tf.float32, [4])
    more = dense.assign_add([1.0, 0.0, 0.0, 0.0])

    def init_fn(scaffold: Any, session: Any) -> None:
        before()
        called.append("init_fn")
        session.run(more)

    local = tf.group(
        v1.local_variables_initializer(),
        v1.py_func(lambda: called.append("local") or 0, [], tf.int64),
    )
    return v1.train.Scaffold(
        init_op=dense.assign(value),
        init_feed_dict={value: [5.0, 0.0, 0.0, 0.0]},
        init_fn=init_fn,
        local_init_op=local,
    )


@pytest.mark.parametrize(
    ("replication", "sync"), [ALONE, ("between-graph", True), *longer(("between-graph", False))]
)
def test_a_scaffold_starts_a_training_once_and_every_session(
    train_here: Train, replication: str | None, sync: bool
) -> None:
    called: list[str] = []
    program = _with(scaffold=lambda: _scaffold(called))
    for steps in (10, 20):
        values = train_here(program, replication, sync=sync, max_steps=steps, here=True).values
    clients = 2 if replication else 1
    assert called.count("init_fn") == 1
    assert called.count("local") == 2 * clients
    # 6 to begin with, and what all gradients have added.
    assert values["dense"].sum() == pytest.approx(6.0 + values["global_step"], rel=1e-5)


def test_a_worker_that_looks_while_the_chief_initializes_keeps_its_session(
    train_here: Train, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []

    def until_the_worker_looks() -> None:
        # Its local variables have values now, and then it looks whether it has ended. By then the
        # chief has given values to some of psclust's own variables, and not to others.
        wait_until(lambda: "local" in called, what="the worker")

    program = _with(scaffold=lambda: _scaffold(called, until_the_worker_looks))
    train_here(program, "between-graph", sync=True, max_steps=10, here=True)
    assert sorted(called) == ["init_fn", "local", "local"]
    assert "reconnecting" not in caplog.text


def test_a_scaffolds_saver_restores_averages_in_place_of_the_variables(tmp_path: Path) -> None:
    v1 = tf.compat.v1

    def model_fn(features: Any, mode: str) -> Any:
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = -weight * tf.reduce_mean(features)
        averages = tf.train.ExponentialMovingAverage(0.5)
        if mode == "eval":
            saver = v1.train.Saver(averages.variables_to_restore([weight]))
            metrics = {"weight": (weight.read_value(), tf.no_op())}
            return psclust.EstimatorSpec(
                mode, loss=loss, eval_metric_ops=metrics, scaffold=v1.train.Scaffold(saver=saver)
            )
        with tf.control_dependencies(
            [v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())]
        ):
            return psclust.EstimatorSpec(mode, loss=loss, train_op=averages.apply([weight]))

    program = psclust.Program(model_fn, lambda mode: tf.data.Dataset.from_tensors([1.0]).repeat(3))
    assert program.train(tmp_path) == 3
    # The averages of 1, 2, 3 that started at 0.
    assert program.evaluate(tmp_path).metrics["weight"] == pytest.approx(2.125)


def test_a_step_of_which_no_hook_wants_anything_is_run_as_one_without_hooks() -> None:
    class Counted(tf.compat.v1.Session):
        runs = 0

        def run(self, *arguments: Any, **named: Any) -> Any:
            self.runs += 1
            return super().run(*arguments, **named)

    class EverySecond(tf.compat.v1.train.SessionRunHook):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def before_run(self, context: Any) -> Any:
            wants = len(self.seen) % 2
            return tf.compat.v1.train.SessionRunArgs(twice) if wants else None

        def after_run(self, context: Any, values: Any) -> None:
            self.seen.append(values.results)

    with tf.Graph().as_default(), Counted() as session:
        fed = tf.compat.v1.placeholder(tf.float32, [])
        twice, thrice = 2 * fed, 3 * fed
        hook = EverySecond()
        step = Hooks([hook, tf.compat.v1.train.SessionRunHook()]).callable(session, [thrice], [fed])
        assert [step(number) for number in range(4)] == [[0.0], [3.0], [6.0], [9.0]]
        assert hook.seen == [None, 2.0, None, 6.0]
        assert session.runs == 2
