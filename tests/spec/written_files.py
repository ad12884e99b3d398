"""Cluster files that a test writes, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from psclust.errors import ClusterFileError
from psclust.spec.load import Override, load


def mistakes(path: Path | None, *overrides: Override, **options: Any) -> list[str]:
    """options: of `load`."""
    with pytest.raises(ClusterFileError) as caught:
        load(path, overrides, default_name="x", **options)
    return list(caught.value.problems)


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return path
