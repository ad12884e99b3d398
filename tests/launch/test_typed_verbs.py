"""Verbs on runs, as people type them."""

from __future__ import annotations

import json
import subprocess

import pytest

from beds.command import CommandBed

pytestmark = pytest.mark.process

SCRIPT = (
    "import sys, time\nfor n in range(5): print('line', n, flush=True)\n"
    "while 'stay' in sys.argv: time.sleep(0.02)\n"
)


@pytest.fixture
def script(bed: CommandBed) -> CommandBed:
    bed.write("script.py", SCRIPT)
    return bed


def up(bed: CommandBed, *words: str) -> str:
    return bed.done("up", "--no-preload", "--ps", "0", "--workers", "2", *words)


def test_down_ends_several_runs_all_runs_and_takes_an_ended_one_for_done(
    script: CommandBed,
) -> None:
    for name in ("one", "two", "three", "four"):
        up(script, "-d", "--name", name, "script.py", "stay")
    said = script.fails(2, "down")
    assert "several runs are live: four, one, three, two. Name those to end, or end --all." in said
    assert script.done("down", "one", "two").count("2 tasks, none is alive") == 2
    assert script.done("stop", "one") == "one is down already; it was stopped: psclust down\n"
    assert script.done("down", "--all").count("2 tasks, none is alive") == 2
    script.done("down")


def test_logs_of_a_job_and_the_last_lines(script: CommandBed) -> None:
    assert "note: --workers stands after script.py" in up(script, "script.py", "--workers", "4")
    _, said = script.run_here("logs", "worker", "-n", "2")
    assert sorted(said.splitlines()) == sorted(
        f"worker:{task} | line {n}" for task in (0, 1) for n in (3, 4)
    )
    _, said = script.run_here("logs", "bed", "worker:1", "-n", "1")
    assert said == "worker:1 | line 4\n"
    said = script.fails_here(2, "logs", "chief")
    assert "bed has no such task; it has worker:0, worker:1; there are runs of bed" in said


def test_a_dry_run_is_the_plan(script: CommandBed) -> None:
    words = ["--ps", "1", "script.py", "--lr", "1"]
    assert script.run_here("up", "--dry-run", *words) == script.run_here("plan", *words)
    assert not script.state.exists()


def test_prune_removes_old_runs_and_clusters_shows_live_ones_first(script: CommandBed) -> None:
    up(script, "-d", "--name", "live", "script.py", "stay")
    for name in ("a", "b", "b"):
        up(script, "--name", name, "script.py")
    _, said = script.run_here("clusters", "--json")
    assert [(row["name"], row["live"]) for row in json.loads(said)] == [
        ("live", True),
        ("b", False),
        ("a", False),
    ]
    assert json.loads(said)[0]["origin"] == str(script.folder)
    assert "would remove 1 run" in script.done_here("prune", "--keep", "1", "--dry-run")
    said = script.done("prune", "--keep", "0", "--json")
    assert [(run["name"], run["removed"], run["bytes"] > 0) for run in json.loads(said)] == [
        (name, True, True) for name in "bba"
    ]
    _, said = script.run_here("clusters", "--json")
    assert [row["name"] for row in json.loads(said)] == ["live"]
    assert script.done_here("prune", "live") == "no old run fits; nothing is removed\n"
    script.done("down")


def test_an_error_that_has_just_been_shown_is_not_shown_again(bed: CommandBed) -> None:
    bed.write("bad.py", "raise SystemExit('no data')\n")
    words = ["up", "--no-preload", "--ps", "0", "--workers", "1", "bad.py"]
    said = bed.fails(1, *words)
    assert said.count("no data") == 1
    assert "the last lines of worker:0 stand above" in said
    apart = subprocess.run(
        [*bed.command, *words],
        cwd=bed.folder,
        env=bed.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "psclust:   no data" in apart.stderr
