"""A training whose servers and programs run psclust's C under AddressSanitizer and
UndefinedBehaviourSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import psclust
from beds.command import CommandBed

pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]

PACKAGE = Path(psclust.__file__).parent
PROGRAM = """
import tensorflow as tf
import psclust

def data():
    x = tf.random.stateless_normal([640, 300], [1, 2])
    return tf.data.Dataset.from_tensor_slices((x, tf.sin(x[:, :1]))).repeat(20).batch(64)

def model(features, labels, mode):
    x = features
    for layer in range(3):
        weights = tf.compat.v1.get_variable(f"layer{layer}", [300, 300])
        x = tf.nn.tanh(tf.matmul(x, weights))
    return psclust.EstimatorSpec(mode, loss=tf.reduce_mean((x[:, :1] - labels) ** 2))

program = psclust.Program(
    model,
    data,
    lambda: tf.compat.v1.train.AdamOptimizer(0.001),
    config=psclust.TrainConfig(wire_dtype="WIRE"),
)
"""
# TensorFlow itself is not checked: it keeps memory until its end, and has names twice.
TESTS = ("own_wire", "wire_strangers", "eight_bits", "whole")
OPTIONS = "detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0"


def _runtimes() -> str:
    """The sanitizers' libraries, to be loaded first."""
    found = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
        if shutil.which("gcc")
    ]
    if not found or not all(map(Path.is_absolute, map(Path, found))):
        pytest.skip("gcc has no AddressSanitizer")
    return ":".join(found)


def _build(folder: Path) -> None:
    """psclust with libraries that are checked."""
    shutil.copytree(PACKAGE, folder / "psclust", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "README.md"):
        shutil.copy(PACKAGE.parent / name, folder)
    native = folder / "psclust" / "native"
    for built in native.glob("*.so"):
        built.unlink()
    checks = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    env = {**os.environ, "CC": "gcc", "CFLAGS": f"-g {checks}", "LDFLAGS": checks}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    libraries = {path.name.partition(".")[0] for path in native.glob("*.so")}
    assert libraries == {"_server_shim", "_kernels", "_tls"}, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("replication", "update", "wire_dtype"),
    [
        ("between-graph", "async", "int8"),
        ("between-graph", "sync", "float32"),
        ("in-graph", "sync", "bfloat16"),
    ],
)
def test_a_training_makes_no_mistake_that_a_sanitizer_sees(
    bed: CommandBed, tmp_path: Path, replication: str, update: str, wire_dtype: str
) -> None:
    runtimes, found = _runtimes(), tmp_path / "found"
    _build(tmp_path / "checked")
    bed.write("checked_program.py", PROGRAM.replace("WIRE", wire_dtype))
    bed.write(
        "psclust.yaml",
        "jobs: {ps: 2, worker: 2}\n"
        "program: checked_program:program\n"
        f"replication: {replication}\n"
        f"update: {update}\n"
        "env:\n"
        f"  LD_PRELOAD: {runtimes}\n"
        f"  ASAN_OPTIONS: {OPTIONS}:log_path={found}\n"
        f"  UBSAN_OPTIONS: log_path={found}:print_stacktrace=1\n",
    )
    running = bed.start("up", env={"PYTHONPATH": str(tmp_path / "checked")})
    code = running.wait(400)
    assert not [file.read_text() for file in tmp_path.glob("found*")]
    assert code == 0, running.output
    # The sanitized kernels and wire were used, not TensorFlow's.
    assert "TensorFlow's ops" not in running.output
    assert "TensorFlow's wire" not in running.output


def test_the_tests_of_the_kernels_and_the_wire_pass_under_sanitizers(tmp_path: Path) -> None:
    runtimes, found = _runtimes(), tmp_path / "found"
    _build(tmp_path / "checked")
    tests = [Path(__file__).parents[1] / "replication" / f"test_{name}.py" for name in TESTS]
    checked = str(tmp_path / "checked")
    env = {"PYTHONPATH": checked, "LD_PRELOAD": runtimes}
    env["ASAN_OPTIONS"] = f"{OPTIONS}:log_path={found}"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    captured: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 900}
    done = subprocess.run(argv, cwd=checked, env={**os.environ, **env}, **captured)
    assert not [file.read_text() for file in tmp_path.glob("found*")]
    assert done.returncode == 0, done.stdout + done.stderr
