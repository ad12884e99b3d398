"""The matrix of versions names tests that are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matrix
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.process
@pytest.mark.tensorflow
def test_every_case_names_tests_that_are_there() -> None:
    named = [test for tests in matrix.CASES.values() for test in tests]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *named],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_case_holds_if_all_its_tests_pass(tmp_path: Path) -> None:
    own = "tests.versions.test_each_version"
    (tmp_path / "report.xml").write_text(
        "<testsuites><testsuite>"
        f'<testcase classname="{own}" name="test_a_script_with_tf_config"/>'
        f'<testcase classname="{own}" name="test_an_estimator_script"><skipped/></testcase>'
        f'<testcase classname="{own}" name="test_a_keras_coordinator[2]"><failure/></testcase>'
        '<testcase classname="tests.train.test_equivalence" name="test_one[2]"/>'
        '<testcase classname="tests.train.test_equivalence" name="test_two"><error/></testcase>'
        "</testsuite></testsuites>"
    )
    found = matrix.results(tmp_path / "report.xml")
    assert found["a script with TF_CONFIG"] == "yes"
    assert found["`tf.estimator.train_and_evaluate`, unchanged"] == "-"
    assert found["ParameterServerStrategy, Keras 2"] == "no"
    assert found["ParameterServerStrategy, Keras 3"] == "no", "its test did not run"
    assert found["weights as of one process"] == "no"
