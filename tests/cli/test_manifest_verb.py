"""`psclust manifest` on the command line."""

from __future__ import annotations

import yaml

from beds.command import CommandBed, typed


def test_flags_alone_make_a_manifest(bed: CommandBed) -> None:
    said = bed.done_here(
        *typed("manifest --image a/b:1 --ps 2 --workers 3 --name d train.py --lr 0.1")
    )
    found, policy = yaml.safe_load_all(said)
    assert {
        job["name"]: job["template"]["spec"]["completions"]
        for job in found["spec"]["replicatedJobs"]
    } == {"ps": 2, "worker": 3}
    assert policy["kind"] == "NetworkPolicy"


def test_a_file_in_the_folder_is_found_and_flags_win(bed: CommandBed) -> None:
    bed.write("psclust.yaml", "name: d\nprogram: train.py\nkubernetes: {image: 'a/b:1'}\n")
    code, said = bed.run_here("manifest", "--plain", "--image", "a/b:2")
    kinds = [found["kind"] for found in yaml.safe_load_all(said)]
    assert (code, kinds) == (0, ["Service", "Job", "Job", "NetworkPolicy"])
    assert "a/b:1" not in said


def test_an_allocation_around_it_does_not_matter(bed: CommandBed) -> None:
    bed.environ |= {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]"}
    bed.done_here("manifest", "--image", "a", "--name", "d", "train.py")


def test_mistakes_come_together_and_nothing_is_printed(bed: CommandBed) -> None:
    said = bed.fails_here(2, "manifest", "-H", "a,b", "--name", "D_1", "train.py")
    assert [line.partition(":")[2].split(":")[0].strip() for line in said.splitlines()] == [
        "--name",
        "-H",
        "kubernetes.image",
    ]


def test_a_note_does_not_spoil_the_pipe(bed: CommandBed) -> None:
    code, said = bed.run_here("manifest", "--image", "a", "--name", "d", "m:p")
    manifest, _, note = said.partition("psclust: note: ")
    assert code == 0
    assert next(yaml.safe_load_all(manifest))["kind"] == "JobSet"
    assert note.startswith("without --model-dir the model and its checkpoints are lost")
