"""psclust's kernels are loaded into builds of TensorFlow that they fit, and into no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import psclust
from psclust.runtime import kernel_library as module
from psclust.runtime.kernel_library import (
    LAYOUT_VARIABLE,
    SELF_TESTS_S,
    VARIABLE,
    fit_if_known,
    kernels_to_load,
)
from psclust.spec.tensorflow_builds import (
    C_LIBRARY,
    FITS,
    LAYOUTS,
    LIBRARY,
    NOTHING,
    VERIFIED,
    Fit,
    build_of,
    fit_of,
    result_file,
)

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


def to_load(folder: Path) -> tuple[bool, str | None]:
    """(whether the kernels are to be loaded, the layout that they are told)"""
    with kernels_to_load(str(folder)) as path:
        return path is not None, os.environ.get(LAYOUT_VARIABLE)


def test_they_fit_the_build_that_is_here_without_a_test(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _tensorflow()
    build = build_of(str(folder / LIBRARY))
    if build not in VERIFIED:
        pytest.skip("this build of TensorFlow is not listed")
    monkeypatch.setenv(LAYOUT_VARIABLE, "1,2,3")
    assert to_load(folder) == (True, str(VERIFIED[build][1]))
    assert os.environ[LAYOUT_VARIABLE] == "1,2,3"
    assert not cache.exists()


def test_kernels_that_are_not_wanted_are_not_there(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert to_load(_tensorflow()) == (False, None)


def test_what_is_no_library_is_no_build(tmp_path: Path, cache: Path) -> None:
    for text in (b"", b"\x7fELF\x02" + b"\xff" * 59, b"x" * 1000):
        (tmp_path / LIBRARY).write_bytes(text)
        assert build_of(str(tmp_path / LIBRARY)) is None
        assert to_load(tmp_path) == (False, None)
        assert fit_if_known(str(tmp_path)) == NOTHING


def test_what_fits_is_kept_as_text() -> None:
    assert [fit_of(str(fit)) for fit in FITS] == list(FITS)
    assert fit_of("8,16,24") == fit_of("") == NOTHING


def test_the_shim_has_the_builds_of_both_libraries() -> None:
    listed = (NATIVE / "server_shim.c").read_text().partition("VERIFIED[] = {")[2].partition("}")[0]
    builds = {f"{int(word, 16):016x}" for word in re.findall(r"0x[0-9a-f]+", listed)}
    assert set(VERIFIED) <= builds
    framework, other = (build_of(str(_tensorflow() / name)) for name in (LIBRARY, C_LIBRARY))
    assert (framework in builds) is (other in builds)


@pytest.mark.long
@pytest.mark.process
def test_another_build_is_tested_once_in_a_process_of_its_own(cache: Path, other: Path) -> None:
    build = build_of(str(other / LIBRARY))
    assert build is not None
    assert fit_if_known(str(other)) is None
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(module._fit(str(other), "") == NOTHING))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True, True]
    kept = Path(result_file(build, str(cache)))
    assert kept.read_text() == "nothing"
    assert fit_if_known(str(other)) == NOTHING
    # What is kept holds.
    kept.write_text("kernels")
    assert to_load(other) == (True, None)
    kept.write_text(str(LAYOUTS[0]))
    assert to_load(other) == (True, str(LAYOUTS[0]))


@pytest.mark.process
def test_a_machine_that_takes_too_long_tests_again(
    cache: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SELF_TESTS_S", 0.0)
    assert to_load(other) == (False, None)
    assert fit_if_known(str(other)) is None


@pytest.mark.process
def test_where_no_result_can_be_kept_they_are_off(cache: Path, other: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert to_load(other) == (False, None)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.tensorflow
def test_the_self_test_finds_what_fits(cache: Path) -> None:
    """Kernels of another compiler or psclust are those that are there: what is tested is
    TensorFlow's layout."""
    folder = str(_tensorflow())
    known = fit_if_known(folder)
    passing = [fit for fit in FITS if fit.kernels and passes(fit)]
    assert passing[-1] == Fit(True)
    if known is not None:
        assert passing[0] == known


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("params", 8),
        pytest.param("cancellation", 8, marks=pytest.mark.long),
        pytest.param("params", -8, marks=pytest.mark.long),
        pytest.param("step", 8, marks=pytest.mark.long),
        pytest.param("cancellation", -8, marks=pytest.mark.long),
    ],
)
def test_the_self_test_finds_a_layout_that_does_not_fit(cache: Path, name: str, by: int) -> None:
    fit = fit_if_known(str(_tensorflow()))
    if fit is None or fit.layout is None:
        pytest.skip("no layout is known for this TensorFlow")
    wrong = fit.layout._replace(**{name: getattr(fit.layout, name) + by})
    assert not passes(Fit(True, wrong))


def passes(fit: Fit) -> bool:
    with kernels_to_load(str(_tensorflow())) as kernels:
        assert kernels is not None
    return module._passes(fit, str(_tensorflow()), kernels, time.monotonic() + SELF_TESTS_S)
