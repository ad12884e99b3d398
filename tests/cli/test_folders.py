"""Folders that are not what they should be: deleted, relative, on another disk."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from beds.command import CommandBed

pytestmark = pytest.mark.process


@pytest.mark.parametrize("verb", ["up -d --ps 1", "plan", "init", "doctor", "ps --run-dir here"])
def test_a_deleted_working_folder_is_one_sentence(bed: CommandBed, verb: str) -> None:
    gone = bed.folder / "gone"
    gone.mkdir()
    shell = f'rmdir "{gone}"; exec "$@"'
    words = ["sh", "-c", shell, "sh", *bed.command, *verb.split()]
    done = subprocess.run(
        words,
        cwd=gone,
        env=bed.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    assert (
        done.stderr == "psclust: the folder you are in has been deleted. "
        "Change to one that exists (cd DIR), and try again.\n"
    )


def test_a_relative_xdg_state_home_is_ignored(bed: CommandBed) -> None:
    bed.environ |= {
        "PSCLUST_STATE": "",
        "XDG_STATE_HOME": "relative",
        "HOME": str(bed.folder / "home"),
    }
    bed.done("up", "--ps", "0", "--workers", "1", "--", "true")
    assert not (bed.folder / "relative").exists()
    assert (bed.folder / "home" / ".local" / "state" / "psclust" / "bed" / "current").exists()


def test_doctor_looks_at_the_disk_where_runs_are_kept(bed: CommandBed, tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second disk")
    bed.environ |= {
        "PSCLUST_STATE": str(other / bed.mark / "runs"),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    _, said = bed.run("doctor", "--json")
    texts = [finding["text"] for finding in json.loads(said) if finding["check"] == "disk"]
    assert [text.partition(" free in ")[2] for text in texts] == [
        str(other / bed.mark / "runs"),
        str(tmp_path / "psclust"),
    ]
