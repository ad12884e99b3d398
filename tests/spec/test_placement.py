"""What a cluster file may say of placement: words, sizes, pins, and the mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_files import mistakes, write

from psclust.spec.cluster_file import Placement
from psclust.spec.key_types import parse_bytes
from psclust.spec.load import Override, load

POLICY = ("placement", "policy")


def loaded(folder: Path, text: str, *overrides: Override) -> Placement:
    path = write(folder, text if "program:" in text else f"{text}\nprogram: a:b")
    return load(path, overrides, default_name="x").placement


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8MB", 8_000_000),
        ("8 MiB", 8 << 20),
        ("512KiB", 512 << 10),
        ("1kB", 1000),
        ("1KB", 1000),
        ("77", 77),
        ("77B", 77),
        ("2GiB", 2 << 30),
    ],
)
def test_sizes_are_numbers_with_units(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_a_word_means_the_policy(tmp_path: Path) -> None:
    assert loaded(tmp_path, "name: x") == Placement()
    assert loaded(tmp_path, "placement: balanced") == Placement(policy="balanced")


def test_a_mapping_pins_and_cuts_as_well(tmp_path: Path) -> None:
    text = (
        "program: a:b\njobs: {ps: 2, worker: 1}\nplacement: {policy: balanced, pin: {'emb/*': "
        "1}, max_shard_bytes: 8MB}"
    )
    assert loaded(tmp_path, text) == Placement(
        policy="balanced", pin={"emb/*": 1}, max_shard_bytes=8_000_000
    )
    assert loaded(tmp_path, "placement: {max_shard_bytes: 4096}").max_shard_bytes == 4096


@pytest.mark.parametrize(
    "text", ["placement: balanced", "placement: {policy: balanced, max_shard_bytes: 8MB}"]
)
def test_a_flag_changes_the_policy_and_keeps_the_rest(text: str, tmp_path: Path) -> None:
    changed = loaded(tmp_path, text, Override("--placement", POLICY, "round_robin"))
    assert (changed.policy, changed.max_shard_bytes) == (
        "round_robin",
        8_000_000 if "8MB" in text else "auto",
    )
    cut = loaded(
        tmp_path, text, Override("--max-shard-bytes", ("placement", "max_shard_bytes"), "1KiB")
    )
    assert cut == Placement(policy="balanced", max_shard_bytes=1024)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "placement: balancd",
            (
                "placement: found the text 'balancd'; write round_robin or balanced, or a mapping "
                "with keys such as policy, pin, max_shard_bytes (did you mean balanced?)."
            ),
        ),
        (
            "placement: {policy: greedy}",
            "placement.policy: found the text 'greedy'; write round_robin or balanced.",
        ),
        (
            "placement: {max_shard_bytes: 8 megs}",
            (
                "placement.max_shard_bytes: found the text '8 megs'; "
                "write auto, none, or a size such as 8MB, 512KiB or 8000000."
            ),
        ),
        (
            "placement: {max_shard_bytes: 0}",
            (
                "placement.max_shard_bytes: found the text '0'; "
                "write auto, none, or a size such as 8MB, 512KiB or 8000000."
            ),
        ),
        (
            "placement: {pin: {a: x}}",
            "placement.pin.a: found the text 'x'; write a whole number, 0 or more.",
        ),
        (
            "placement: {pin: {'emb/*': 2}}",
            "placement.pin.emb/*: there is no ps:2: the last task is ps:1; indices begin at 0.",
        ),
    ],
)
def test_mistakes_are_told_with_their_line(text: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"program: a:b\njobs: {{ps: 2, worker: 1}}\n{text}")
    assert mistakes(path) == [f"{path}:3: {problem}"]
