"""What contributors run: one list of checks, in the Makefile and before every commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

import psclust

ROOT = Path(__file__).parents[2]


def test_a_commit_is_checked_as_make_check_does() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    commands = [command.strip() for line in printed.splitlines() for command in line.split("&&")]
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))[
        "repos"
    ]
    hooks = [hook["entry"] for hook in repo["hooks"]]
    assert hooks == [
        command
        for command in commands
        if command.startswith((".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/python -m pytest"))
    ]


def test_the_page_lists_all_that_an_installation_without_tensorflow_needs() -> None:
    (required,) = re.findall(
        r"install_requires=\[(.*?)\]", (ROOT / "setup.py").read_text("utf-8"), re.DOTALL
    )
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (names,) = re.findall(r"^    pip install (click .*)$", page, re.MULTILINE)
    assert {"tensorflow", *names.split()} == set(re.findall(r'"([\w-]+)', required))


def test_github_runs_the_same_lint_first_and_nothing_but_make() -> None:
    (path,) = (ROOT / ".github" / "workflows").iterdir()
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    typed = {
        name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()
    }
    assert {name for name, job in jobs.items() if "needs" not in job and "if" not in job} == {
        "lint"
    }
    assert jobs["test"]["needs"] == "lint"
    landing = re.findall(r"^make .*", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    assert landing
    assert set(landing) <= set(typed["test"])
    words = [line.removeprefix("sudo ").split() for lines in typed.values() for line in lines]
    assert {command for command, *_ in words} == {"make"}
    targets = {target for _, *named in words for target in named}
    known = subprocess.run(
        ["make", "--dry-run", *sorted(targets)], cwd=ROOT, capture_output=True, text=True
    )
    assert known.returncode == 0, known.stderr


def test_the_changelog_begins_with_this_version_and_knows_three_kinds_of_entries() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    versions = [line.split()[1] for line in lines if line.startswith("## ")]
    assert versions[0] == psclust.__version__
    assert {line for line in lines if line.startswith("### ")} <= {
        "### ADDED",
        "### CHANGED",
        "### FIXED",
    }
    assert f'version="{psclust.__version__}"' in (ROOT / "setup.py").read_text(encoding="utf-8")
