"""psclust's kernels are loaded into the version of TensorFlow they are for, and into no other."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from psclust.runtime.kernel_library import VARIABLE, fits, kernel_library
from psclust.runtime.tensorflow_library import Library, find_library


@pytest.mark.parametrize(
    ("found", "fit"),
    [
        ("2.21.0", True),
        ("2.21.1-rc0", True),
        ("2.15.1", False),
        ("2.20.0", False),
        ("2.22.0.dev20261101", False),
        ("2.2", False),
        ("", False),
    ],
)
def test_another_version_of_tensorflow_gets_no_kernels(
    found: str, fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert fits(found) is fit
    assert (kernel_library(found) is not None) is fit


def test_kernels_that_are_not_wanted_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert kernel_library("2.21.0") is None


@pytest.mark.process
@pytest.mark.tensorflow
def test_the_library_says_which_version_it_is() -> None:
    assert Library(find_library()).version == version("tensorflow")
