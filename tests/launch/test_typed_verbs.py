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
    code, said = bed.run("up", "--no-preload", "--ps", "0", "--workers", "2", *words)
    assert code == 0, said
    return said


def test_down_ends_several_runs_all_runs_and_takes_an_ended_one_for_done(
    script: CommandBed,
) -> None:
    for name in ("one", "two", "three", "four"):
        up(script, "-d", "--name", name, "script.py", "stay")
    code, said = script.run("down")
    assert code == 2
    assert "several runs are live: four, one, three, two. Name those to end, or end --all." in said
    code, said = script.run("down", "one", "two")
    assert (code, said.count("2 tasks, none is alive")) == (0, 2), said
    code, said = script.run("stop", "one")
    assert (code, said) == (0, "one is down already; it was stopped: psclust down\n")
    code, said = script.run("down", "--all")
    assert (code, said.count("2 tasks, none is alive")) == (0, 2), said
    assert script.run("down")[0] == 0


def test_logs_of_a_job_and_the_last_lines(script: CommandBed) -> None:
    assert "note: --workers stands after script.py" in up(script, "script.py", "--workers", "4")
    _, said = script.run_here("logs", "worker", "-n", "2")
    assert sorted(said.splitlines()) == sorted(
        f"worker:{task} | line {n}" for task in (0, 1) for n in (3, 4)
    )
    _, said = script.run_here("logs", "bed", "worker:1", "-n", "1")
    assert said == "worker:1 | line 4\n"
    code, said = script.run_here("logs", "chief")
    assert (
        code,
        "bed has no such task; it has worker:0, worker:1; there are runs of bed" in said,
    ) == (2, True), said


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
    code, said = script.run_here("prune", "--keep", "1", "--dry-run")
    assert (code, "would remove 1 run" in said) == (0, True), said
    code, said = script.run("prune", "--keep", "0", "--json")
    assert code == 0
    assert [(run["name"], run["removed"], run["bytes"] > 0) for run in json.loads(said)] == [
        (name, True, True) for name in "bba"
    ]
    _, said = script.run_here("clusters", "--json")
    assert [row["name"] for row in json.loads(said)] == ["live"]
    assert script.run_here("prune", "live") == (0, "no old run fits; nothing is removed\n")
    assert script.run("down")[0] == 0


def test_an_error_that_has_just_been_shown_is_not_shown_again(bed: CommandBed) -> None:
    bed.write("bad.py", "raise SystemExit('no data')\n")
    words = ["up", "--no-preload", "--ps", "0", "--workers", "1", "bad.py"]
    code, said = bed.run(*words)
    assert (code, said.count("no data")) == (1, 1), said
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
