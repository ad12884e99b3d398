"""A graph whose variables are where the placement policy wants them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import tensorflow as tf

from psclust.replication import kernels
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.variables.places import BuildAgain
from psclust.replication.wire.own_wire import Unreachable, allow_own_wire, connect_by
from psclust.runtime.kernel_library import SELF_TESTS_S, fit_if_known, has_wire, wanted
from psclust.train.job import Job
from psclust.train.task_context import TaskContext, task_of

LOG = logging.getLogger(__name__)

_Built = TypeVar("_Built")


def build_placed(
    job: Job, layout: DeviceLayout, build: Callable[[DeviceLayout], _Built]
) -> tuple[tf.Graph, _Built, DeviceLayout]:
    """(a new graph, what `build` builds in it, for which layout).

    `build` is called again, in another graph, if the first build shows that other variables should
    be partitioned than were (see `psclust.placement.cuts`), or that the model has functions on the
    device of a variable, such as the branches of a `tf.cond` inside `tf.device(variable.device)`:
    they cannot be moved.
    """
    graph = job.new_graph()
    try:
        with job.building(graph):
            wire, folder = job.program.config.wire_dtype, tf.sysconfig.get_lib()
            choose_kernels(job.context, wire, kernels.loaded(), folder)
            made = build(layout)
            connect_by(lambda device: job.context.address(task_of(device)))
            return graph, made, layout
    except BuildAgain as found:
        decided = found.decided
    # Here, so that an error of the next build is not shown as one that this led to.
    return build_placed(job, replace(layout, decided=decided), build)


# Why a graph has to be built again.
CANNOT_RUN = (kernels.Missing, Unreachable)


def without(job: Job, reason: Exception) -> Job:
    """The job, whose graphs are built from now on with TensorFlow's own of what `reason`, one of
    CANNOT_RUN, is about."""
    missing = isinstance(reason, kernels.Missing)
    return replace(
        job,
        context=replace(job.context, kernels=False)
        if missing
        else replace(job.context, own_wire=False),
    )


def choose_kernels(context: TaskContext, wire_dtype: str, loaded: Any, folder: str) -> None:
    """Makes the current graph use psclust's own kernels, and its own wire, if it is for a cluster
    and they may be there. loaded: the kernels' ops here, None if there are none. folder: of the
    TensorFlow that is here; the chief says so if they do not fit it, or could not be tested."""
    if context.task is None or not context.kernels:
        return
    if loaded is not None:
        kernels.use()
        if context.own_wire and has_wire(loaded):
            allow_own_wire()
    fit = fit_if_known(folder)
    if fit is not None and fit.layout is None and context.is_chief:
        lacking, instead = (
            ("psclust's own wire does", "wire is used")
            if fit.kernels
            else ("psclust's kernels and its own wire do", "ops and wire are used")
        )
        LOG.info(
            "%s not fit this build of TensorFlow, which says that it is %s: TensorFlow's %s",
            lacking,
            tf.__version__,
            instead,
        )
    elif fit is None and context.is_chief and wanted():
        LOG.info(
            "psclust's kernels and its own wire were not tested with this build of TensorFlow, "
            "which says that it is %s, within %g s: TensorFlow's ops and wire are used; "
            "the next run tests them again",
            tf.__version__,
            SELF_TESTS_S,
        )
    elif loaded is None and wire_dtype == "int8":
        LOG.info("%s", kernels.Missing(str(context.task)))
