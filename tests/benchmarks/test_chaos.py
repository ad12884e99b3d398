"""Runs with random faults keep what psclust promises; what is drawn is repeated by its seed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from psclust.testing.wait import wait_until

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import chaos as benchmark  # noqa: E402
from faults import checks, tally  # noqa: E402
from faults.cases import BATCHES, HOSTS, LOCAL, SLURM, Case, Hit, draw  # noqa: E402
from faults.hitting import Done  # noqa: E402


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


@pytest.mark.long
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
    assert len({(case.replication, case.update, case.feature) for case in cases}) == 26
    assert {len(case.hits) for case in cases} == {1, 2, 3}
    local = {hit.kind for case in cases if case.place == LOCAL for hit in case.hits}
    assert local == {"KILL", "STOP", "TERM", "DISK", "FILES", "MEMORY", "CLOCK"}
    assert {hit.kind for case in cases for hit in case.hits} == {*local, "CUT", "SLOW"}
    for what, where in (
        ("forwarder of ", {HOSTS, SLURM}),
        ("log-in to ", {HOSTS, SLURM}),
        ("slurmd of ", {SLURM}),
        ("home of ", {HOSTS}),
        ("model", {LOCAL, HOSTS, SLURM}),
        ("clock of ", {HOSTS, SLURM}),
    ):
        hit = [case for case in cases if any(h.victim.startswith(what) for h in case.hits)]
        assert {case.place for case in hit} == where, what
        assert what != "forwarder of " or all(case.encrypt for case in hit)
    assert all(hit.victim in case.tasks for case in cases for hit in case.hits if ":" in hit.victim)


def test_the_line_of_a_case_begins_with_what_repeats_it() -> None:
    assert str(draw(3, 14)).startswith("--seed 3 --case 14: ")


def made(kind: str, victim: str, for_s: float = 0.0) -> Done:
    return Done(Hit(kind, victim, for_s), "made")


def case(place: str = LOCAL, **fields: object) -> Case:
    drawn = Case(1, 2, place, "between-graph", "sync", "plain", "training", 0.5)
    return replace(drawn, **fields)


@pytest.mark.parametrize(
    ("place", "done", "codes"),
    [
        (LOCAL, [made("KILL", "ps:1"), made("STOP", "supervisor", 3.0)], {0}),
        (LOCAL, [made("KILL", "supervisor")], {1}),
        (LOCAL, [made("TERM", "up"), made("KILL", "worker:0")], {143}),
        (SLURM, [made("TERM", "up")], {75}),
        (LOCAL, [Done(Hit("KILL", "guard"), None)], {0}),
        (HOSTS, [made("CUT", "h1", 4.0), made("KILL", "h2")], {0}),
        (HOSTS, [made("CUT", "h1", 41.0), made("KILL", "agent and guard of h2")], {0, 1, 3}),
        (HOSTS, [made("KILL", "forwarder of h1"), made("KILL", "forwarder of h2")], {0}),
        (SLURM, [made("KILL", "slurmd of n1", 3.0), made("CLOCK", "clock")], {0}),
    ],
)
def test_how_a_run_may_end(place: str, done: list[Done], codes: set[int]) -> None:
    assert checks.promised(case(place), done).codes == codes


def test_an_example_that_was_used_once_too_often_is_found() -> None:
    counts = np.full(64, BATCHES * 8 * 2 / 64 / 16)
    values = {
        "global_step": BATCHES,
        "psclust/positions": np.array([BATCHES, BATCHES]),
        "counts": counts,
        "first": np.zeros([128, 1024]),
        "second": np.zeros([1024, 10]),
    }
    assert [*checks.values(case(), values, 1)] == ["accuracy 0.109"]
    counts[3] += 1 / 16
    assert "used 150.00 to 151.00 times, not 150" in next(checks.values(case(), values, 1))
    assert [*checks.values(case(replication="in-graph"), values, 1)] == ["accuracy 0.109"]
    values["global_step"] = BATCHES - 1
    assert f"global step {BATCHES - 1}" in next(checks.values(case(), values, 1))


def test_a_checkpoint_that_goes_back_is_found(tmp_path: Path) -> None:
    def latest(step: int) -> None:
        (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')

    latest(50)
    with benchmark.forward_only(tmp_path) as watcher:
        wait_until(lambda: watcher.last == 50, what="the first look")
        latest(100)
        wait_until(lambda: watcher.last == 100, what="the second look")
        latest(50)
        wait_until(lambda: watcher.backward, what="what went back")
    assert watcher.backward == ["the checkpoint of step 50 followed that of 100"]


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
