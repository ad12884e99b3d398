"""`psclust.Program`: a model, its input and its optimizer, with the methods of the Estimator
interface.

The methods work alone or, in a script that `psclust up` runs, as the task that the process is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from psclust.errors import UsageError
from psclust.estimator import install
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.jobs import IN_GRAPH, PS, WORKER, server_jobs
from psclust.train import modes
from psclust.train.definition import Definition
from psclust.train.job import Job
from psclust.train.offline.evaluation import Evaluation, evaluate
from psclust.train.offline.prediction import predict
from psclust.train.offline.saved_model import export_saved_model
from psclust.train.program_options import Options
from psclust.train.progress_file import ProgressFile
from psclust.train.reporter import Reporter
from psclust.train.task_context import TaskContext, read_context

PathLike = str | os.PathLike[str]

_LOG_INTERVAL_S = 2.0


class RunningCluster(Protocol):
    """Bare servers. `psclust.LocalCluster` and `psclust.Run` are such."""

    @property
    def cluster_spec(self) -> Mapping[str, Sequence[str]]:
        """job -> addresses."""

    @property
    def target(self) -> str:
        """The first worker: `grpc://host:port`."""

    @property
    def model_dir(self) -> Path:
        """The folder of the checkpoints if none is named."""


class Program(Definition):
    """A program to train in-graph or between-graph, synchronously or asynchronously, or in one
    process, as a flag says.

    model_fn(features, labels, mode, params, config) -> EstimatorSpec (or an object like it). All
        but `features` may be left out of its signature; `config`, which Estimator model functions
        may have, is None. It creates its variables with `tf.compat.v1.get_variable`, so that towers
        can share them.
    input_fn(mode, params, shard) -> tf.data.Dataset of (features, labels) batches, any subset of
        the arguments. A replica trains on shard `shard.index` of `shard.count`, until the dataset
        ends. With mode EVAL it returns the held-out data.
    optimizer_fn(params, global_step) -> tf.compat.v1.train.Optimizer, any subset of the arguments;
        None where model_fn returns a ready train_op, which can be used between-graph asynchronous
        and in one process.
        With data_parts it is input_fn(part, params): the batches of one part, a string scalar or
        int64 [2], in the same order each time.
    data_parts: what the data to train on is divided into: the names of files, or ranges of examples
        as `psclust.ranges` gives them; or data_parts(params), which returns such a list. Give many
        more than there are workers.
    params: passed to the functions; `--set key=value` on the command line replaces values.
    eval_input_fn(params) -> tf.data.Dataset of held-out batches, for an input_fn that does not take
        `mode`.
    seed: the graph-level random seed.
    input_on_client: in-graph, run the input in the client rather than on the workers, for an
        input_fn that calls Python.
    predict_input_fn(params) -> tf.data.Dataset to predict for, of features or (features, labels),
        for an input_fn without `mode`.
    serving_input_receiver_fn() -> psclust.estimator.export.ServingInputReceiver: what requests to
        an exported model look like.
    config: the settings of the training, see `TrainConfig`; `--config key=value` on the command
        line replaces some.
    """

    def train(
        self,
        model_dir: PathLike | None = None,
        *,
        max_steps: int | None = None,
        hooks: Sequence[Any] = (),
        cluster: RunningCluster | None = None,
        sync: bool = False,
    ) -> int:
        """Trains from the last checkpoint until the data ends or the global step is `max_steps`;
        returns the global step.

        model_dir: the folder of the checkpoints, here and in the other methods; in a run, by
            default the run's folder.
        cluster: bare servers such as those of `psclust.LocalCluster`, on which this process trains
            in-graph, with a tower on each worker.
        sync: with `cluster`, the towers step together. Raises UsageError if it is given inside a
            run, or with input_on_client.
        """
        if cluster is None:
            return modes.train(self._job(model_dir, hooks, max_steps=max_steps))
        context = _client_of(cluster, self, sync=sync)
        return modes.train(
            self._job(model_dir or cluster.model_dir, hooks, context, max_steps=max_steps)
        )

    def evaluate(
        self,
        model_dir: PathLike | None = None,
        *,
        steps: int | None = None,
        hooks: Sequence[Any] = (),
    ) -> Evaluation:
        """Evaluates the last checkpoint on all held-out data, or on `steps` batches of it."""
        return evaluate(self._job(model_dir, hooks, eval_steps=steps))

    def predict(
        self, model_dir: PathLike | None = None, *, hooks: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Yields a prediction for each example from the last checkpoint: a dict of numpy values
        where the model predicts a dict."""
        return predict(self._job(model_dir, hooks))

    def train_and_evaluate(
        self,
        model_dir: PathLike | None = None,
        *,
        max_steps: int | None = None,
        hooks: Sequence[Any] = (),
    ) -> Evaluation:
        """Trains, then evaluates the result; `hooks` are for the training."""
        self.train(model_dir, max_steps=max_steps, hooks=hooks)
        return self.evaluate(model_dir)

    def export_saved_model(
        self,
        export_dir: PathLike | None = None,
        serving_input_receiver_fn: Callable[..., Any] | None = None,
        *,
        model_dir: PathLike | None = None,
    ) -> Path:
        """Writes the last checkpoint as a SavedModel to `export_dir/<seconds since 1970>` and
        returns that folder. Default: `export` in the model's folder, and the program's
        serving_input_receiver_fn."""
        folder = Path(export_dir) if export_dir is not None else None
        return export_saved_model(self._job(model_dir), folder, serving_input_receiver_fn)

    def _job(
        self,
        model_dir: PathLike | None,
        hooks: Sequence[Any] = (),
        context: TaskContext | None = None,
        **options: Any,
    ) -> Job:
        """Raises UsageError if there is no folder for checkpoints, and in a task that only
        serves."""
        context = context or _trainable_context(os.environ)
        if model_dir is not None:
            folder = Path(model_dir).absolute()
        elif context.run_dir is not None:
            folder = RunFolder(context.run_dir).model
        else:
            raise UsageError("there is no folder for checkpoints outside a run; give model_dir")
        install()
        reporter = Reporter(ProgressFile(context.progress_file), _LOG_INTERVAL_S)
        return Job(self, context, Options("", **options), folder, reporter, tuple(hooks))


def _client_of(cluster: RunningCluster, program: Program, *, sync: bool) -> TaskContext:
    """This process as the in-graph client of `cluster`; its sessions run in the first worker.
    Raises UsageError."""
    if read_context(os.environ).task is not None:
        raise UsageError(
            "cluster=...: this process is a task of a run, "
            "and trains on that run's cluster; leave it out"
        )
    if program.input_on_client:
        raise UsageError(
            "input_on_client=True: "
            "the client of bare servers has no server of its own to run the input; use `psclust up`"
        )
    spec = ClusterSpec({job: tuple(addresses) for job, addresses in cluster.cluster_spec.items()})
    if not spec.count(PS) or not spec.count(WORKER):
        raise UsageError(
            f"cluster=...: found {dict(spec.jobs)}; "
            "in-graph training needs at least one ps and one worker"
        )
    return TaskContext(Task(WORKER, 0), spec, IN_GRAPH, sync, target=cluster.target)


def _trainable_context(environment: Mapping[str, str]) -> TaskContext:
    context = read_context(environment)
    task = context.task
    if task is not None and task.job in server_jobs(context.replication):
        raise UsageError(
            f"{task} is a server and does not train. Start the program as module:program with "
            "`psclust up`, or start a script with `run: server` for that job"
        )
    return context
