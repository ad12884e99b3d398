"""One task's part of a training, as every kind of training takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Graph
from psclust.train.definition import Definition
from psclust.train.end_request import EndRequest
from psclust.train.program_options import Options
from psclust.train.reporter import Reporter
from psclust.train.task_context import TaskContext


@dataclass(frozen=True)
class Job:
    """hooks: session hooks to run in addition to those of the model function. check_folder: called
    before a checkpoint is written, raises PsclustError if the model's folder has another writer."""

    program: Definition
    context: TaskContext
    options: Options
    model_dir: Path
    reporter: Reporter
    hooks: Sequence[Any] = ()
    end_request: EndRequest = field(default_factory=EndRequest)
    check_folder: Callable[[], None] = lambda: None

    @property
    def save_s(self) -> float | None:
        """Seconds between checkpoints."""
        return (
            self.program.config.save_seconds if self.options.save_s is None else self.options.save_s
        )

    def new_graph(self) -> Graph:
        """An empty graph with the program's seed."""
        graph = tf.Graph()
        if self.program.seed is not None:
            with graph.as_default():
                tf.compat.v1.set_random_seed(self.program.seed)
        return graph

    @contextmanager
    def building(self, graph: Graph) -> Iterator[None]:
        """Inside, what is built is in the graph, and has its state where the variables are."""
        with graph.as_default(), graph.container(self.context.home.container):
            yield

    def enough(self, step: int) -> bool:
        """Whether the training ends at global step `step`."""
        return self.options.max_steps is not None and step >= self.options.max_steps
