"""What is known of agents that may have tasks, through detaching, the supervisor's death and the
end."""

from __future__ import annotations

from pathlib import Path

from psclust.rundir.agents_file import (
    LiveAgents,
    keep_agents,
    mark_dead,
    mark_detached,
    read_agents,
    write_agents,
)
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus
from psclust.rundir.status_file import read_status, record_death, write_status

AGENTS = LiveAgents(("a", "b"), lasts_s=43.2, detached_s=90_000.0)


def folder(path: Path) -> RunFolder:
    made = RunFolder(path / "demo" / "run1")
    made.create()
    write_agents(made, AGENTS)
    write_status(made, RunStatus("demo", "run1", str(made.path), "live", 1, 0.0))
    return made


def test_a_detached_run_leaves_its_agents_for_longer(tmp_path: Path) -> None:
    run = folder(tmp_path)
    mark_detached(run)
    assert read_agents(run) == LiveAgents(("a", "b"), 90_000.0, 90_000.0)


def test_the_first_time_at_which_the_supervisor_is_known_to_be_dead_counts(tmp_path: Path) -> None:
    run = folder(tmp_path)
    mark_dead(run, 100.0)
    assert mark_dead(run, 200.0) == LiveAgents(("a", "b"), 43.2, 90_000.0, ended=100.0)


def test_an_agent_that_could_not_be_stopped_stays(tmp_path: Path) -> None:
    run = folder(tmp_path)
    keep_agents(run, ["b"])
    assert read_agents(run) == LiveAgents(("b",), 43.2, 90_000.0)
    keep_agents(run, [])
    assert read_agents(run) is None
    keep_agents(run, ["b"])
    mark_detached(run)
    assert mark_dead(run, 1.0) is None


def test_the_record_of_a_death_says_where_tasks_go_on(tmp_path: Path) -> None:
    run = folder(tmp_path)
    record_death(run, "was killed")
    text = read_status(run).text
    assert text is not None
    assert (
        "every task of the run here was stopped, those on a, "
        "b end by themselves within 43 s (deadlines.lease). `psclust down demo`" in text
    )


def test_without_agents_everything_has_stopped(tmp_path: Path) -> None:
    run = folder(tmp_path)
    keep_agents(run, [])
    record_death(run, "was killed")
    assert read_status(run).text == "the supervisor was killed; every task of the run was stopped"
