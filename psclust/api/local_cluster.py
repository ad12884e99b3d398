"""`psclust.LocalCluster`: bare TensorFlow servers on this machine, for a `with` block."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path

from psclust.api.cluster_options import Cluster
from psclust.api.run import Run
from psclust.spec.cluster import ClusterSpec, Task, render_tf_config

_numbers = itertools.count(1)


class LocalCluster:
    """Servers of `ps` ps and `workers` worker tasks, started on entry and gone on exit.

        with psclust.LocalCluster(ps=2, workers=2) as cluster:
            with tf.compat.v1.Session(cluster.target) as session:
                ...

    jobs: the number of tasks of further jobs, such as {"chief": 1}. Other arguments: see
    `Cluster`."""

    def __init__(
        self,
        ps: int = 1,
        workers: int = 2,
        *,
        jobs: Mapping[str, int] | None = None,
        **options: object,
    ) -> None:
        name = f"local-{os.getpid()}-{next(_numbers)}"
        self._cluster = Cluster(
            **{"name": name, "hosts": "local", **options}, ps=ps, workers=workers, jobs=jobs
        )
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """The run behind it: status, logs, folder. Raises RuntimeError before `start`."""
        if self._run is None:
            raise RuntimeError(
                "the cluster has not been started: use it in a `with` block, or call start()"
            )
        return self._run

    def start(self) -> LocalCluster:
        """Returns when every server accepts connections. Raises StartError."""
        if self._run is None:
            self._run = self._cluster.up()
        return self

    def stop(self) -> None:
        """Returns when no process of it is alive."""
        if self._run is not None:
            self._run.down()

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(self, *details: object) -> None:
        self.stop()

    @property
    def cluster_spec(self) -> dict[str, list[str]]:
        """job -> addresses, for `tf.train.ClusterSpec`."""
        return self.run.cluster_spec

    @property
    def target(self) -> str:
        """See `Run.target`."""
        return self.run.target

    @property
    def model_dir(self) -> Path:
        """A folder for checkpoints, which outlives the cluster."""
        return self.run.model_dir

    def tf_config(self, job: str, index: int) -> str:
        """The value of TF_CONFIG for a process that is this task."""
        spec = ClusterSpec(
            {name: tuple(addresses) for name, addresses in self.cluster_spec.items()}
        )
        return render_tf_config(spec, Task(job, index))
