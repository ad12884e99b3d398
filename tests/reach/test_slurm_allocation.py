"""What psclust takes for a Slurm allocation, and what it refuses to use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from psclust.errors import ClusterFileError, UsageError
from psclust.reach.slurm.allocation import expand_counts, find_allocation, srun_environment
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.found_hosts import FindHosts, FoundHosts
from psclust.spec.load import Override, load

JOB = {"SLURM_JOB_ID": "17", "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("text", "counts"),
    [("4", [4]), ("4(x2),2", [4, 4, 2]), ("1,16(x3)", [1, 16, 16, 16])],
    ids=["one", "repeated first", "repeated last"],
)
def test_counts_are_expanded(text: str, counts: list[int]) -> None:
    assert expand_counts(text) == counts


def test_without_slurm_nothing_is_found_unless_it_is_asked_for() -> None:
    assert find_allocation({"PATH": "/bin"}, asked=False) is None
    with pytest.raises(
        UsageError,
        match="no allocation; submit a job with `psclust up --slurm`, or call psclust in a script",
    ):
        find_allocation({"PATH": "/bin"}, asked=True)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"},
            "srun started this psclust as task 1 of 4, .* Call psclust once, without srun",
        ),
        (
            {"PATH": "/nowhere"},
            "this is Slurm job 17, but there is no `srun` on the PATH; in a container, perhaps",
        ),
    ],
    ids=["a task of many", "no srun"],
)
def test_an_allocation_that_cannot_be_used_is_refused(
    environ: Mapping[str, str], sentence: str
) -> None:
    for asked in (True, False):
        with pytest.raises(UsageError, match=sentence) as caught:
            find_allocation({**JOB, **environ}, asked=asked)
        assert "`hosts: local` (-H local)" in str(caught.value)


def test_srun_gets_no_option_by_its_environment() -> None:
    given = {
        "PATH": "/bin",
        "TOKEN": "x",
        "SLURM_CONF": "c",
        "SLURM_NTASKS": "8",
        "SLURM_CPU_BIND": "cores",
        "SLURM_GPUS_PER_TASK": "1",
    }
    given |= {
        "SLURM_JOB_ID": "18",
        "SLURM_JOB_NUM_NODES": "4",
        "SLURM_JOB_ID_HET_GROUP_1": "18",
        "SLURM_ARRAY_TASK_ID": "3",
    }
    kept = {
        "PATH": "/bin",
        "TOKEN": "x",
        "SLURM_CONF": "c",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_JOB_ID": "17",
    }
    assert srun_environment(given, "17") == kept


def two_nodes(text: ClusterText) -> FoundHosts:
    return FoundHosts(
        "slurm", [Host("n1", 2), Host("n2", 4)], "found", {"het-0": ["n1"], "het-1": ["n2"]}
    )


def loaded(
    folder: Path, text: str, *overrides: Override, find_hosts: FindHosts = two_nodes
) -> ClusterFile:
    (folder / "x.yaml").write_text(text)
    return load(folder / "x.yaml", overrides, default_name="x", find_hosts=find_hosts)


@pytest.mark.parametrize(
    ("text", "names", "reach_by"),
    [
        ("jobs: {worker: 2}", ["n1", "n2"], "slurm"),
        ("hosts: slurm", ["n1", "n2"], "slurm"),
        ("hosts: slurm\nreach_by: ssh", ["n1", "n2"], "ssh"),
        ("hosts: local", [], "ssh"),
        ("hosts: [slurm]", ["slurm"], "ssh"),
        ("hosts: a,b", ["a", "b"], "ssh"),
    ],
)
def test_hosts_are_found_where_none_are_listed(
    tmp_path: Path, text: str, names: list[str], reach_by: str
) -> None:
    file = loaded(tmp_path, text)
    assert [host.name for host in file.hosts] == names
    assert file.reach_by == reach_by
    assert file.found == ("found" if names == ["n1", "n2"] else None)


def test_the_flag_wins_over_the_file(tmp_path: Path) -> None:
    assert loaded(tmp_path, "hosts: slurm", Override("-H", ("hosts",), "local")).hosts == []


def test_a_group_stands_for_its_nodes(tmp_path: Path) -> None:
    text = "jobs:\n  ps: {count: 2, hosts: het-0}\n  worker: {count: 2, hosts: [het-1, n1]}"
    with pytest.raises(
        ClusterFileError, match="2 ps and 1 worker are pinned to n1, which has 2 slots"
    ):
        loaded(tmp_path, text)
    file = loaded(tmp_path, text.replace("ps: {count: 2", "ps: {count: 1"))
    assert [file.jobs[name].hosts for name in ("ps", "worker")] == [["n1"], ["n2", "n1"]]


def test_a_refusal_names_the_key_or_the_flag(tmp_path: Path) -> None:
    def refuse(text: ClusterText) -> FoundHosts:
        raise UsageError("no.")

    with pytest.raises(ClusterFileError, match=r"x\.yaml:2: hosts: no\."):
        loaded(tmp_path, "name: x\nhosts: slurm", find_hosts=refuse)
    with pytest.raises(ClusterFileError, match=r"-H: no\."):
        load(None, [Override("-H", ("hosts",), "slurm")], default_name="x", find_hosts=refuse)


def test_where_cpus_are_too_few_it_is_not_the_file_that_can_offer_more(tmp_path: Path) -> None:
    with pytest.raises(
        ClusterFileError,
        match=r"7 workers need 7 slots; the hosts offer 6 \(n1: 2, n2: 4\)\. "
        r"Lower the count or ask for more CPUs\.",
    ):
        loaded(tmp_path, "jobs: {worker: 7}")
