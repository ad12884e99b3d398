"""The cluster files that come with psclust: each loads, says what it shows, and is named after its
file."""

from __future__ import annotations

from pathlib import Path

import pytest

from beds.found_nodes import find_four_nodes
from psclust.spec.load import load

FOLDER = Path(__file__).parents[2] / "cluster_specs"
SPECS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_it_loads_under_the_name_of_its_file(path: Path) -> None:
    # In a cluster of Kubernetes its service could not have the name of the file, which Kubernetes's
    # own has.
    expected = "digits" if path.stem == "kubernetes" else path.stem
    assert load(path, default_name="x", find_hosts=find_four_nodes).name == expected


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_it_begins_with_its_idea_and_the_command_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    comment = [line for line in text.splitlines() if line.startswith("#")]
    assert text.startswith("# ")
    assert any(
        f"psclust {verb} -f cluster_specs/{path.name}" in line
        for line in comment
        for verb in ("up", "up -d", "up --slurm", "plan")
    )
