"""psclust's kernels are loaded into builds of TensorFlow that they fit, and into no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

import psclust
from psclust.runtime import kernel_library as module
from psclust.runtime.kernel_library import VARIABLE, are_known_not_to_fit, kernel_library
from psclust.spec.tensorflow_builds import LAYOUT, LIBRARY, VERIFIED, build_of, result_file

NATIVE = Path(psclust.__file__).parent / "native"
EMPTY = "int nothing;"


def _tensorflow() -> Path:
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _compile(source: str, library: Path, *flags: str) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: install gcc")
    file = library.with_suffix(".c")
    file.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, file, *flags], check=True)
    return library


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """psclust's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "cache" / "psclust"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The folder of a TensorFlow of another build: its library is none."""
    folder = tmp_path / "tensorflow"
    folder.mkdir()
    _compile(EMPTY, folder / LIBRARY)
    return folder


def test_they_fit_the_build_that_is_here_without_a_test(cache: Path) -> None:
    folder = _tensorflow()
    if build_of(str(folder / LIBRARY)) not in VERIFIED:
        pytest.skip("this build of TensorFlow is not listed")
    assert kernel_library(str(folder)) is not None
    assert not are_known_not_to_fit(str(folder))
    assert not cache.exists()


def test_kernels_that_are_not_wanted_are_not_there(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert kernel_library(str(_tensorflow())) is None


def test_what_is_no_library_is_no_build(tmp_path: Path, cache: Path) -> None:
    for text in (b"", b"\x7fELF\x02" + b"\xff" * 59, b"x" * 1000):
        (tmp_path / LIBRARY).write_bytes(text)
        assert build_of(str(tmp_path / LIBRARY)) is None
        assert kernel_library(str(tmp_path)) is None
        assert are_known_not_to_fit(str(tmp_path))


def test_c_and_python_mean_the_same_builds_and_layout() -> None:
    private = (NATIVE / "tensorflow_private.c").read_text()
    for name, value in LAYOUT._asdict().items():
        assert f"{name.upper()}_AT = {value}" in private
    listed = re.search(r"VERIFIED\[\] = \{(.*?)\}", (NATIVE / "server_shim.c").read_text(), re.S)
    assert listed is not None
    builds = {f"{int(word, 16):016x}" for word in listed[1].split(",")}
    assert set(VERIFIED) <= builds
    framework, other = (
        build_of(str(_tensorflow() / name)) for name in (LIBRARY, "libtensorflow_cc.so.2")
    )
    assert (framework in builds) is (other in builds)


@pytest.mark.process
def test_another_build_is_tested_once_in_a_process_of_its_own(
    cache: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = build_of(str(other / LIBRARY))
    assert build is not None
    assert not are_known_not_to_fit(str(other))
    found: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(kernel_library(str(other)))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [None, None]
    kept = Path(result_file(build, str(cache)))
    assert kept.read_text() == "no"
    assert are_known_not_to_fit(str(other))
    # What is kept holds.
    kept.write_text("yes")
    assert kernel_library(str(other)) is not None


@pytest.mark.process
def test_where_no_result_can_be_kept_they_are_off(cache: Path, other: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert kernel_library(str(other)) is None


@pytest.mark.process
@pytest.mark.tensorflow
def test_the_self_test_passes_with_the_build_that_is_here(tmp_path: Path, cache: Path) -> None:
    assert _self_test(_kernels(tmp_path, {})) == 0


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("PARAMS_AT", 32),
        pytest.param("CANCELLATION_AT", 176, marks=pytest.mark.long),
        pytest.param("PARAMS_AT", 16, marks=pytest.mark.long),
        pytest.param("STEP_AT", 8, marks=pytest.mark.long),
        pytest.param("CANCELLATION_AT", 160, marks=pytest.mark.long),
    ],
)
def test_the_self_test_finds_a_layout_that_does_not_fit(
    tmp_path: Path, name: str, wrong: int
) -> None:
    assert _self_test(_kernels(tmp_path, {name: wrong})) != 0


def _kernels(folder: Path, other: dict[str, int]) -> Path:
    """Built for another layout."""
    shutil.copytree(NATIVE, folder / "native")
    private = folder / "native" / "tensorflow_private.c"
    text = private.read_text()
    for name, value in other.items():
        text, count = re.subn(rf"{name} = \d+", f"{name} = {value}", text)
        assert count == 1
    private.write_text(text)
    sources = [file for file in (folder / "native").glob("*.c") if file.stem != "server_shim"]
    library = folder / "_kernels.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, *sources, "-ldl"], check=True)
    return library


def _self_test(kernels: Path) -> int:
    program = Path(module.__file__).with_name("kernel_self_test.py")
    return subprocess.run(
        [sys.executable, program, kernels, _tensorflow()],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        timeout=120,
    ).returncode
