"""Cluster files that a test writes, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.errors import ClusterFileError
from psclust.spec.load import load


def mistakes(path: Path) -> list[str]:
    with pytest.raises(ClusterFileError) as caught:
        load(path, default_name="x")
    return list(caught.value.problems)


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return path
