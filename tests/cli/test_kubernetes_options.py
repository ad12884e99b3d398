"""Options of `up --kubernetes` that contradict others."""

from __future__ import annotations

import pytest

from beds.command import CommandBed, typed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["up", "--kubernetes", "--slurm", "--image", "a"],
            "--slurm and --kubernetes: a run is in a job of Slurm or in pods; give one of them.",
        ),
        (["up", "--image", "a"], "--image: only pods have an image; give --kubernetes, too."),
        (["plan", "--image", "a"], "--image: only pods have an image; give --kubernetes, too."),
        (
            ["up", "--kubernetes", "--image", "a", "-H", "b"],
            "-H: Kubernetes chooses the hosts of pods; remove the hosts here.",
        ),
        (
            ["exec", "--kubernetes", "-H", "b", "ls"],
            "--kubernetes: the hosts are the pods of the run; remove -H and --hostfile.",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], said: str, bed: CommandBed
) -> None:
    assert bed.fails_here(2, *words) == f"psclust: {said}\n"


def test_a_plan_shows_the_pods_and_what_is_run_in_them(bed: CommandBed) -> None:
    bed.write("train.py", "")
    said = bed.done_here(
        *typed("plan --kubernetes --image a --ps 0 --workers 1 --role-by none train.py")
    )
    assert "hosts: 1 pod of a\n" in said
    assert "worker:0  on worker-0" in said
    assert (
        "\nfirst, psclust makes:\n\napiVersion: v1\nkind: Pod\nmetadata:\n  name: bed-worker-0\n"
        in said
    )
    assert "\nthen, on worker-0, by kubernetes:\n" in said
