"""The notebook of the examples runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from beds.command import CommandBed
from psclust import examples
from psclust.testing.wait import PATIENCE_S

pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]


def test_the_notebook_trains_in_both_ways(bed: CommandBed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bed.environment(
        {"IPYTHONDIR": str(bed.folder), "TF_CPP_MIN_LOG_LEVEL": "2"}
    ).items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(Path(examples.__path__[0]) / "two_ways.ipynb", as_version=4)
    NotebookClient(
        notebook,
        timeout=PATIENCE_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(bed.folder)}},
    ).execute()
    said = [
        "".join(output.get("text", "") for output in cell.get("outputs", ()))
        for cell in notebook.cells
    ]
    assert "6 computed on /job:ps/task:1" in said[3]
    assert said[7].startswith("100 steps [ 2.")
    assert "worker:1 done 0" in said[9]
