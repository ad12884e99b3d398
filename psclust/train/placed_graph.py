"""A graph whose variables are where the placement policy wants them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout
from psclust.replication.variables.places import FunctionsOnVariables
from psclust.replication.wire import kernels
from psclust.train.job import Job

_Built = TypeVar("_Built")


def build_placed(job: Job, layout: DeviceLayout, build: Callable[[DeviceLayout], _Built]) -> tuple[tf.Graph, _Built]:
    """(a new graph, what `build` builds in it). If the model has functions on the device of a variable, such as the branches of a `tf.cond`
    inside `tf.device(variable.device)`, `build` is called once more, in another graph, because functions cannot be moved."""
    graph = job.new_graph()
    try:
        with graph.as_default():
            if job.context.kernels:
                kernels.use()
            return graph, build(layout)
    except FunctionsOnVariables as found:
        return build_placed(job, replace(layout, placed=found.placed), build)
