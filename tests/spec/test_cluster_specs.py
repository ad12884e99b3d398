"""The cluster files that come with psclust: each loads, says what it shows, and is named after its
file."""

from __future__ import annotations

from pathlib import Path

import pytest

from beds.found_nodes import find_four_nodes
from psclust.errors import ClusterFileError
from psclust.spec.load import Override, load

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


def test_too_many_workers_for_two_hosts_are_told_by_line(tmp_path: Path) -> None:
    text = (FOLDER / "two-hosts.yaml").read_text().replace("count: 3", "count: 5")
    path = tmp_path / "two-hosts.yaml"
    path.write_text(text)
    line = text.splitlines().index("    count: 5") + 1
    with pytest.raises(ClusterFileError) as caught:
        load(path, default_name="x")
    assert caught.value.problems == (
        (
            f"{path}:{line}: jobs.worker.count: 5 workers and 1 ps need 6 slots; "
            "the hosts offer 4 (a: 2, b: 2). Lower the count or raise slots."
        ),
    )


def test_one_word_changes_the_kind_of_replication() -> None:
    file = load(
        FOLDER / "digits.yaml",
        [Override("--replication", ("replication",), "in-graph")],
        default_name="x",
    )
    assert (file.replication, file.program) == ("in-graph", "psclust.examples.digits:program")
