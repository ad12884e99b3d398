"""psclust: start, train on, watch and end TensorFlow parameter-server clusters.

Importing this package imports nothing else. Its names are resolved on first use, so that the
launcher and the bare servers never load TensorFlow.
"""

from __future__ import annotations

# As in typing, which would take time to import; type checkers treat it as true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from psclust import estimator as estimator
    from psclust.api.cluster_options import Cluster
    from psclust.api.local_cluster import LocalCluster
    from psclust.api.run import Run
    from psclust.replication.model import EstimatorSpec, ModeKeys, Shard
    from psclust.replication.parts.part_list import ranges
    from psclust.replication.statistics.batch_norm import batch_normalization
    from psclust.train import schedules as schedules
    from psclust.train.config import TrainConfig
    from psclust.train.hooks.early_stopping import EarlyStopping
    from psclust.train.program import Program

__version__ = "0.1.0"

_HOMES = {
    "Cluster": "psclust.api.cluster_options",
    "LocalCluster": "psclust.api.local_cluster",
    "Run": "psclust.api.run",
    "EarlyStopping": "psclust.train.hooks.early_stopping",
    "batch_normalization": "psclust.replication.statistics.batch_norm",
    "Program": "psclust.train.program",
    "EstimatorSpec": "psclust.replication.model",
    "ModeKeys": "psclust.replication.model",
    "Shard": "psclust.replication.model",
    "TrainConfig": "psclust.train.config",
    "ranges": "psclust.replication.parts.part_list",
}
_MODULES = {"estimator": "psclust.estimator", "schedules": "psclust.train.schedules"}
__all__ = [
    "Cluster",
    "EarlyStopping",
    "EstimatorSpec",
    "LocalCluster",
    "ModeKeys",
    "Program",
    "Run",
    "Shard",
    "TrainConfig",
    "__version__",
    "batch_normalization",
    "ranges",
    "schedules",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'psclust' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
