"""Which differences of environment a forked task cannot take over."""

from __future__ import annotations

import sys

import pytest
from fork_client import ForkServer

from psclust.spec.preload_limits import IMPORT_READS, LIBRARY_READS, is_imported, stale


@pytest.mark.parametrize(
    "name",
    [
        "TF_USE_LEGACY_KERAS",
        "PYTHONHASHSEED",
        "PYTHONOPTIMIZE",
        "LD_PRELOAD",
        "TF_CPP_MIN_LOG_LEVEL",
        "LC_ALL",
        "OMP_NUM_THREADS",
    ],
)
@pytest.mark.parametrize(("wanted", "have"), [("1", None), (None, "1"), ("1", "2")])
def test_what_an_interpreter_reads_at_its_start_is_stale(
    name: str, wanted: str | None, have: str | None
) -> None:
    environments = [
        {"HOME": "/"} if value is None else {"HOME": "/", name: value} for value in (wanted, have)
    ]
    assert stale(*environments, IMPORT_READS) == {name}


@pytest.mark.parametrize(
    "name",
    [
        "TF_CONFIG",
        "CUDA_VISIBLE_DEVICES",
        "PSCLUST_BIND",
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "OPENBLAS_NUM_THREADS",
        "TF_GRPC_DEFAULT_OPTIONS",
    ],
)
def test_what_is_read_when_used_is_not(name: str) -> None:
    assert stale({name: "1"}, {}, IMPORT_READS) == set()


def test_a_bare_server_has_no_interpreter_to_start() -> None:
    found = stale({"PYTHONHASHSEED": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}, {}, LIBRARY_READS)
    assert found == {"TF_ENABLE_ONEDNN_OPTS"}


def test_the_same_environment_is_never_stale() -> None:
    same = {"PYTHONHASHSEED": "1", "LD_PRELOAD": "x.so"}
    assert stale(same, dict(same), IMPORT_READS) == set()


@pytest.mark.process
@pytest.mark.tensorflow
def test_which_modules_of_the_standard_library_tensorflow_imports_is_known(
    tensorflow: ForkServer,
) -> None:
    code = "import sys; print(*(name for name in sys.modules if '.' not in name))"
    _, names = tensorflow.run([sys.executable, "-c", code])
    loaded = set(names.split())
    assert {name for name in loaded & sys.stdlib_module_names if not is_imported(name)} == set()
    assert {name for name in ("numpy", "keras", "six", "absl") if not is_imported(name)} == set()
