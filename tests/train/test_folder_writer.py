"""A model folder and the trainings that would write into it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from psclust.errors import PsclustError
from psclust.train.checkpoints import folder_writer
from psclust.train.checkpoints.folder_writer import FolderLease, Writer, writing_to

pytestmark = pytest.mark.process

HOLD = """
import sys, time
from pathlib import Path
from psclust.train.checkpoints.folder_writer import FolderLease, Writer
FolderLease(Path(sys.argv[1]), Writer.here("other", "worker:0")).take()
print("taken", flush=True)
time.sleep(600)
"""


# Its pids mean nothing here, as those of another host.
ELSEWHERE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@contextmanager
def another(folder: Path, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        yield process
        process.kill()


def test_a_folder_that_is_written_to_by_nothing_else_is_taken_and_left_as_it_was(
    tmp_path: Path,
) -> None:
    with writing_to(tmp_path, "mine", "worker:0") as lease:
        lease.check()
        assert (tmp_path / "writer.json").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    with another(tmp_path) as process:
        process.kill()
        process.wait()
        began = time.monotonic()
        with writing_to(tmp_path, "mine", "worker:0") as lease:
            lease.check()
        assert time.monotonic() - began < folder_writer._LEASE_S / 2


def test_the_next_attempt_of_a_run_takes_the_folder_over_from_the_one_before(
    tmp_path: Path,
) -> None:
    with another(tmp_path), writing_to(tmp_path, "other", "worker:0") as lease:
        lease.check()


def test_a_writer_that_goes_on_is_named_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(folder_writer, "_PATIENCE_S", 0.5)
    with (
        another(tmp_path),
        pytest.raises(
            PsclustError,
            match=r"worker:0 of run other writes into this folder, "
            r"on .* choose another --model-dir",
        ),
    ):
        FolderLease(tmp_path, Writer.here("mine", "worker:0")).take()


def test_a_writer_on_another_machine_is_waited_for_until_its_lease_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = FolderLease(tmp_path, replace(Writer.here("other", "worker:0"), machine="another one"))
    far._renew()
    monkeypatch.setattr(folder_writer, "_LEASE_S", 0.5)
    began = time.monotonic()
    with writing_to(tmp_path, "mine", "worker:0"):
        assert time.monotonic() - began >= 0.5
        # It had only stood still, and must not write any more.
        with pytest.raises(PsclustError, match=r"worker:0 of run mine writes into this folder"):
            far.check()
        far.release()
        assert (tmp_path / "writer.json").exists()


@pytest.mark.long
def test_a_writer_on_another_host_is_refused_the_folder_of_and_given_it_once_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run([*ELSEWHERE, "true"], capture_output=True).returncode:
        pytest.skip("a process id namespace needs root")
    with another(tmp_path, *ELSEWHERE) as process:
        monkeypatch.setattr(folder_writer, "_PATIENCE_S", 3.0)
        with pytest.raises(PsclustError, match=r"worker:0 of run other writes into this folder"):
            FolderLease(tmp_path, Writer.here("mine", "worker:0")).take()
        process.kill()
        process.wait()
        monkeypatch.setattr(folder_writer, "_PATIENCE_S", 60.0)
        began = time.monotonic()
        with writing_to(tmp_path, "mine", "worker:0") as lease:
            lease.check()
        assert time.monotonic() - began < folder_writer._LEASE_S + folder_writer._RENEW_S + 2.0


@pytest.mark.parametrize("left", [None, "", "a writer that was killed"])
def test_of_two_that_begin_at_once_one_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str | None
) -> None:
    monkeypatch.setattr(folder_writer, "_PATIENCE_S", 0.5)
    if left == "":
        (tmp_path / "writer.json").touch()
    elif left is not None:
        with another(tmp_path) as process:
            process.kill()
    leases = [FolderLease(tmp_path, Writer.here(f"run {n}", "worker:0")) for n in range(8)]

    def take(lease: FolderLease) -> bool:
        try:
            lease.take()
        except PsclustError:
            return False
        return True

    with ThreadPoolExecutor(max_workers=len(leases)) as pool:
        taken = list(pool.map(take, leases))
    for lease in leases:
        lease.release()
    assert sum(taken) == 1
    assert not list(tmp_path.glob(".*"))
