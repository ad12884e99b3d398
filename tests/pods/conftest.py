"""A Kubernetes cluster of a small kubelet, and which tests this Python cannot run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beds.command import CommandBed

if TYPE_CHECKING:
    from kube_server import KubeServer

# kmock needs Python 3.11.
_KMOCK = ["test_kube_api.py", "test_up_in_pods.py", "test_growing_in_pods.py"]
collect_ignore = [] if sys.version_info >= (3, 11) else _KMOCK


@pytest.fixture
def kube(bed: CommandBed, tmp_path: Path) -> Iterator[KubeServer]:
    from kube_server import kube_server

    (tmp_path / "claim").mkdir()
    with kube_server(tmp_path, 8, {"data": tmp_path / "claim"}, hidden=[bed.folder]) as server:
        yield server


@pytest.fixture
def pods(kube: KubeServer, bed: CommandBed, tmp_path: Path) -> CommandBed:
    """The command, with a kubeconfig."""
    bed.environ["KUBECONFIG"] = str(kube.kubeconfig(tmp_path))
    # Where the client puts the keys of a kubeconfig.
    (tmp_path / "temporary").mkdir()
    bed.environ["TMPDIR"] = str(tmp_path / "temporary")
    return bed
