"""What people do with psclust, with each TensorFlow that it is for, from PyPI.

    make test-versions                          # or: python tests/versions/matrix.py
    make test-versions versions="--only 2.17"   # also several
    python tests/versions/matrix.py --only 2.21 --python python3.13

Each version gets an environment of its own in the user's cache, with psclust and its requirements:
some 2 GB each. The cases are tests of this folder and of others, run by that environment's Python.
What they show is written to docs/versions.json, and as a table to docs/versions.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "docs" / "versions.json", ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- made by make test-versions -->", "<!-- end -->"
VERSIONS = ("2.15.1", "2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
OTHER_PYTHON = "VERSIONS_OTHER_PYTHON"
"""Names the Python of the version before, for tests that go from one to another."""

_OWN = "tests/versions/test_each_version.py"
_PROGRAMS = "tests/launch/test_programs.py"
# What a user does -> the tests that do it: files, or tests with all their parameters.
CASES: Mapping[str, Sequence[str]] = {
    "bare servers, dialled by a client of its own": [
        f"{_PROGRAMS}::test_bare_servers_are_dialled_by_another_client_and_listen_on_one_interface"
    ],
    "a notebook's client in-graph": [f"{_OWN}::test_a_notebooks_client"],
    "a script with the classic flags": [
        f"{_PROGRAMS}::test_a_tf1_script_with_the_classic_flags_runs_unchanged"
    ],
    "a script with TF_CONFIG": [f"{_OWN}::test_a_script_with_tf_config"],
    "`tf.estimator.train_and_evaluate`, unchanged": [f"{_OWN}::test_an_estimator_script"],
    "a model function of an Estimator": [
        f"{_OWN}::test_a_model_function_of_an_estimator",
        "tests/train/test_estimator.py::test_an_old_model_function_trains_evaluates_and_predicts",
    ],
    "ParameterServerStrategy": [f"{_PROGRAMS}::test_a_coordinator_script_runs_in_the_chief_alone"],
    "ParameterServerStrategy, Keras 2": [f"{_OWN}::test_a_keras_coordinator[2]"],
    "ParameterServerStrategy, Keras 3": [f"{_OWN}::test_a_keras_coordinator[3]"],
    **{
        f"a psclust program, {way}": [f"{_OWN}::test_a_psclust_program[{way}]"]
        for way in (
            "between-graph async",
            "between-graph sync",
            "in-graph async",
            "in-graph sync",
            "between-graph async, no kernels",
            "between-graph sync, no kernels",
            "in-graph async, no kernels",
            "in-graph sync, no kernels",
        )
    },
    "psclust's own kernels": [f"{_OWN}::test_own_kernels"],
    "psclust's own wire": [f"{_OWN}::test_own_wire"],
    "weights as of one process": ["tests/train/test_equivalence.py"],
    "goes on from a checkpoint of the version before": [f"{_OWN}::test_a_checkpoint_of_another"],
    "SSH hosts that have this TensorFlow alone": [
        "tests/launch/test_hosts_with_tensorflow_alone.py::test_the_digits_train"
        "[between-graph---sync]"
    ],
    "a ps is killed": [
        "tests/train/test_faults.py::"
        "test_a_ps_that_comes_back_empty_is_filled_from_the_last_checkpoint[ps:0-True]"
    ],
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="VERSION", help="such as 2.17")
    parser.add_argument("--python", default=sys.executable, help="makes the environments")
    options = parser.parse_args()
    wanted = [
        version
        for version in VERSIONS
        if not options.only or any(version.startswith(each) for each in options.only)
    ]
    if not wanted:
        parser.error(f"--only: none of {', '.join(VERSIONS)} begins so")
    failed = []
    for version in wanted:
        began = time.monotonic()
        found = run(version, options.python)
        title = f"{version}, Python {python_version(options.python)}"
        keep(title, found)
        failed += [f"{title}: {case}" for case, result in found.items() if result == "no"]
        print(f"== {title}: {time.monotonic() - began:.0f} s", flush=True)
    write_page()
    print(*(failed or ["All cases hold."]), sep="\n")
    return 1 if failed else 0


def python_version(python: str) -> str:
    """Such as 3.11."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        [python, "-c", script], check=True, capture_output=True, text=True
    ).stdout.strip()


def environment(version: str, python: str) -> Path:
    """The Python of an environment with this TensorFlow; made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "psclust" / "versions" / f"{version}-python{python_version(python)}"
    found, done = folder / "bin" / "python", folder / "done"
    if not done.exists():
        print(f"== making {folder}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "-U", "pip"], check=True)
        minor = version.rpartition(".")[0]
        packages = [f"tensorflow=={version}", f"tf_keras=={minor}.*", "pytest>=8", "packaging"]
        requirement = ["-e", f"{ROOT}[examples]"]
        subprocess.run([*pip, *requirement, *packages], check=True)
        done.touch()
    return found


def run(version: str, python: str) -> dict[str, str]:
    """What each case shows: yes, no, or - where this TensorFlow does not have it."""
    here = environment(version, python)
    before = VERSIONS[max(0, VERSIONS.index(version) - 1)]
    report = here.parents[1] / "report.xml"
    report.unlink(missing_ok=True)
    tests = [test for tests in CASES.values() for test in tests]
    ended = subprocess.run(
        [here, "-m", "pytest", "-q", "-m", "not long or versions", f"--junitxml={report}", *tests],
        cwd=ROOT,
        env={**os.environ, OTHER_PYTHON: str(environment(before, python))},
        check=False,
    )
    if ended.returncode > 1:  # of pytest: 1 is that a test failed
        sys.exit(f"{version}: the tests did not run")
    return results(report)


def results(report: Path) -> dict[str, str]:
    """Of pytest's report in the form of JUnit."""
    outcomes = {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": outcome(case)
        for case in xml.parse(report).iter("testcase")
    }
    found = {}
    for name, tests in CASES.items():
        seen = {
            outcomes[each]
            for each in outcomes
            for test in tests
            if each == test or each.startswith((f"{test}[", f"{test}::"))
        }
        found[name] = "no" if not seen or "no" in seen else min(seen, key=["yes", "-"].index)
    return found


def outcome(case: xml.Element) -> str:
    kinds = {child.tag for child in case}
    return "no" if kinds & {"failure", "error"} else "-" if "skipped" in kinds else "yes"


def keep(title: str, found: Mapping[str, str]) -> None:
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    known[title] = found
    ordered = dict(sorted(known.items(), key=lambda item: numbers(item[0])))
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def numbers(title: str) -> list[int]:
    return [int(part) for part in title.replace(", Python ", ".").split(".")]


def write_page() -> None:
    """The table between the page's two marks."""
    known = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = [
        "| | " + " | ".join(title.replace(", ", "<br>") for title in known) + " |",
        "|---" * (len(known) + 1) + "|",
        *(
            f"| {case} | " + " | ".join(found.get(case, "") for found in known.values()) + " |"
            for case in CASES
        ),
    ]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([before + BEGIN, *lines, END + after]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
