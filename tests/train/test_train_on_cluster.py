"""Training from Python on bare servers: what comes out is what `psclust up` would train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import toys
from trained import read_checkpoint
from ways import Train

import psclust
from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow


class _Servers:
    """Addresses of no server."""

    def __init__(self, **jobs: list[str]) -> None:
        self.cluster_spec = jobs

    target = "grpc://127.0.0.1:2"
    model_dir = Path("nowhere")


@pytest.mark.process
def test_a_program_trains_in_graph_on_a_local_cluster(
    train_here: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSCLUST_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with psclust.LocalCluster(ps=2, workers=2) as cluster:
        step = toys.line.train(cluster=cluster, sync=True)
        trained = read_checkpoint(cluster.model_dir)
    alone = train_here(toys.line)
    assert step == trained.step == alone.step
    for name in ("weights", "words", "bias"):
        np.testing.assert_allclose(trained.values[name], alone.values[name], rtol=1e-4)


def test_what_such_a_client_cannot_do_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="at least one ps and one worker"):
        toys.line.train(cluster=_Servers(ps=["127.0.0.1:1"]))
    on_client = psclust.Program(
        toys.line.model_fn, toys.line.input_fn, toys.line.optimizer_fn, input_on_client=True
    )
    with pytest.raises(UsageError, match=r"input_on_client=True: .* use `psclust up`"):
        on_client.train(cluster=_Servers(ps=["127.0.0.1:1"], worker=["127.0.0.1:2"]))
    for name, value in {
        "PSCLUST_CLUSTER": '{"ps": ["a:1"], "worker": ["a:2"]}',
        "PSCLUST_TASK": "worker:0",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="this process is a task of a run"):
        toys.line.train(cluster=_Servers(ps=["127.0.0.1:1"], worker=["127.0.0.1:2"]))
