"""Which files of a program's folder are sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from psclust.errors import UsageError
from psclust.reach.python.on_host.store import Tree
from psclust.reach.ship.shipped_files import package_tree, program_tree


def tree(root: Path, **options: int) -> Tree:
    return program_tree(root, **options)  # type: ignore[arg-type]


def write(root: Path, names: str) -> None:
    """Files of these names, with blanks between them."""
    for name in names.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def paths(root: Path) -> list[str]:
    return [entry.path for entry in tree(root).entries]


def test_everything_but_caches_and_version_control_is_sent(tmp_path: Path) -> None:
    write(tmp_path, "train.py pkg/model.py pkg/__pycache__/model.pyc .git/config")
    write(tmp_path, ".venv/bin/python env/pyvenv.cfg env/x")
    assert paths(tmp_path) == ["pkg/model.py", "train.py"]


def test_ignore_files_count_in_their_folders_the_nearest_most(tmp_path: Path) -> None:
    write(tmp_path, "a.log keep.log data/big.bin data/small.bin pkg/a.log pkg/data/x.py")
    write(tmp_path, "runs/1/model src/runs/2")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/runs/\ndata/*.bin\n")
    (tmp_path / "pkg" / ".gitignore").write_text("!a.log\n/data\n")
    (tmp_path / "data" / ".gitignore").write_text("!small.bin\n")
    assert " ".join(paths(tmp_path)) == (
        ".gitignore data/.gitignore data/small.bin keep.log pkg/.gitignore pkg/a.log src/runs/2"
    )


def test_links_stay_links_and_what_is_no_file_stays_behind(tmp_path: Path) -> None:
    write(tmp_path, "data/a")
    (tmp_path / "latest").symlink_to("data")
    (tmp_path / "elsewhere").symlink_to("/no/such/place")
    os.mkfifo(tmp_path / "pipe")
    assert [(entry.path, entry.link) for entry in tree(tmp_path).entries] == [
        ("data/a", None),
        ("elsewhere", "/no/such/place"),
        ("latest", "data"),
    ]


def test_a_file_with_secrets_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, ".env train.py")
    assert [
        entry.path for entry in program_tree(tmp_path, without=[tmp_path / ".env"]).entries
    ] == ["train.py"]


def test_the_digest_changes_with_a_name_a_mode_or_a_content_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a b")
    first = tree(tmp_path).digest
    (tmp_path / "a").touch()
    assert tree(tmp_path).digest == first
    (tmp_path / "a").chmod(0o755)
    executable = tree(tmp_path).digest
    (tmp_path / "a").write_text("other")
    changed = tree(tmp_path).digest
    (tmp_path / "a").rename(tmp_path / "c")
    assert len({first, executable, changed, tree(tmp_path).digest}) == 4


def test_too_much_is_refused_and_the_biggest_are_named(tmp_path: Path) -> None:
    write(tmp_path, "train.py")
    for name, size in (
        ("data/images/a", 5_000_000),
        ("data/labels", 3_000_000),
        ("runs/1/model", 400_000),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    with pytest.raises(UsageError) as caught:
        tree(tmp_path, most=8_000_000)
    assert str(caught.value) == (
        f"ship: {tmp_path} holds 8 MB, more than the 8 MB that are sent to hosts; "
        "the biggest: data/images/ (5 MB), data/labels (3 MB), runs/1/ (400,000 bytes). "
        "List data in .gitignore and keep it where every host reads it, or name a smaller folder."
    )


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or directory; it cannot be sent"):
        tree(tmp_path / "missing")


def test_psclust_itself_goes_with_its_libraries_under_names_for_every_python() -> None:
    names = [entry.path for entry in package_tree().entries]
    assert {
        "psclust/__init__.py",
        "psclust/agent/agent.proto",
        "psclust/reach/python/on_host/store.py",
    } <= set(names)
    assert [name for name in names if name.endswith(".so")] == [
        "psclust/native/_kernels.so",
        "psclust/native/_server_shim.so",
        "psclust/native/_tls.so",
    ]
