"""Runs with random faults keep what psclust promises; what is drawn is repeated by its seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from faults import tally  # noqa: E402
from faults.cases import HOSTS, LOCAL, SLURM, Case, draw  # noqa: E402


def chaos(*arguments: str) -> str:
    """What it prints; no run may break a promise."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "chaos.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_run_with_drawn_faults_keeps_its_promises(number: int) -> None:
    assert " 0 runs with a violation" in chaos("--seed", "1", "--case", str(number))


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.long
def test_ten_minutes_of_drawn_faults() -> None:
    chaos("--seed", "2", "--minutes", "10")


def test_the_seed_and_the_number_are_the_case() -> None:
    assert [draw(1, number) for number in range(50)] == [draw(1, number) for number in range(50)]
    assert draw(1, 7) != draw(2, 7)


def test_everything_is_drawn_where_it_can_happen() -> None:
    cases = [draw(seed, number) for seed in range(5) for number in range(400)]
    assert {case.place for case in cases} == {LOCAL, HOSTS, SLURM}
    assert len({(case.replication, case.update, case.feature) for case in cases}) == 22
    assert {len(case.hits) for case in cases} == {1, 2, 3}
    local = {hit.kind for case in cases if case.place == LOCAL for hit in case.hits}
    assert local == {"KILL", "STOP", "TERM", "DISK", "FILES", "MEMORY"}
    assert {hit.kind for case in cases for hit in case.hits} == {*local, "CUT", "SLOW"}
    assert all(hit.victim in case.tasks for case in cases for hit in case.hits if ":" in hit.victim)


def test_the_line_of_a_case_begins_with_what_repeats_it() -> None:
    assert str(draw(3, 14)).startswith("--seed 3 --case 14: ")


def test_the_table_counts_faults_where_they_were_made(tmp_path: Path) -> None:
    file, page = tmp_path / "tally.json", tmp_path / "page.md"
    case = Case(1, 2, HOSTS, "in-graph", "sync", "plain", "training", 0.5)
    wrong = tally.Found(HOSTS, ("KILL ps", "CUT host"), 12.0, 1, ("left: 1 python",))
    tally.add(file, case, wrong)
    tally.add(file, case, tally.Found(HOSTS, ("KILL ps", "CUT host"), 12.0, 0, ()))
    tally.add(file, draw(1, 0), tally.Found(LOCAL, ("KILL ps",), 3.0, 0, ()))
    page.write_text("before\n<!-- tally -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    tally.write_page(page, file)
    said = page.read_text(encoding="utf-8")
    assert "| KILL ps | 1 | 1 |  |" in said
    assert "| CUT host |  | 1 |  |" in said
    assert "| **faults** | 1 | 2 | 0 |" in said
    assert "| **runs with a violation** | 0 | 0 | 0 |" in said
    assert "old" not in said
