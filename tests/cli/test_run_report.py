"""What a report shows, of made-up runs: figures, sizes, and text that stays text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_runs import made_up, tasks

from psclust.cli.run_report.charts import charts, time_ticks, timeline, value_ticks
from psclust.cli.run_report.contents import numbers
from psclust.cli.run_report.page import legend, render_page
from psclust.cli.run_report.plain_text import render_text
from psclust.cli.run_report.story import clause_of
from psclust.rundir.events_file import record

NASTY = "</pre><script>alert('no')</script> & \x1b[2J"


@pytest.mark.parametrize("length_s", [0.4, 17, 100, 119, 4000, 200_000, 1e7])
@pytest.mark.parametrize("most", [6, 10])
def test_times_on_an_axis_are_few_and_round(length_s: float, most: int) -> None:
    ticks = time_ticks(length_s, most)
    assert 3 <= len(ticks) <= most + 1
    assert len({tick.label for tick in ticks}) == len(ticks)
    assert ticks[0].at == 0
    assert 0.6 < ticks[-1].at <= 1
    assert all(len(tick.label) <= 7 for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.0), (0.0, 7.0), (0.11, 2.7), (5.0, 5.0), (1e6, 1.01e6), (-3.0, 4.0)]
)
def test_values_on_an_axis_are_around_what_is_shown(low: float, high: float) -> None:
    ticks = value_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= low
    assert ticks[-1] >= high


def test_curves_are_of_the_samples_and_break_with_an_attempt(tmp_path: Path) -> None:
    story = made_up(tmp_path, tasks(1, 2), looks=50)
    drawn = {chart.name: chart for chart in charts(story)}
    assert list(drawn) == ["loss", "examples", "staleness", "cpu", "memory", "received", "sent"]
    assert [line.name for line in legend(list(drawn.values()))] == ["ps:0", "worker:0", "worker:1"]
    (cpu,) = (line for line in drawn["cpu"].lines if line.name == "worker:1")
    (part,) = cpu.parts
    assert len(part) == 49  # a rate needs two samples
    assert {round(y, 6) for _, y in part} == {round(part[0][1], 6)}  # of an even use
    assert (part[0][0], part[-1][0]) == (pytest.approx(0.04), pytest.approx(1.0))
    assert all(
        0 <= y <= 1
        for chart in drawn.values()
        for line in chart.lines
        for part in line.parts
        for _, y in part
    )


def test_jobs_stand_for_their_tasks_where_there_are_many(tmp_path: Path) -> None:
    drawn = charts(made_up(tmp_path, tasks(3, 9)))
    assert {line.name for chart in drawn for line in chart.lines} == {
        "ps (mean of 3)",
        "worker (mean of 9)",
    }
    assert {line.is_ps for line in drawn[0].lines} == {True, False}


def test_a_timeline_keeps_every_failure(tmp_path: Path) -> None:
    drawn = timeline(made_up(tmp_path, tasks(1, 1), deaths=2000))
    kinds = [each.kind for row in drawn.rows for each in row.segments]
    assert kinds.count("failed") == 2000
    assert len(kinds) < 3600
    assert drawn.kinds[0] == "start"


@pytest.mark.parametrize(("workers", "deaths"), [(2, 2000), (1000, 0)])
def test_a_page_of_a_run_of_days_stays_below_a_megabyte(
    tmp_path: Path, workers: int, deaths: int
) -> None:
    page = render_page(
        made_up(tmp_path, tasks(24, workers), looks=479 if workers < 9 else 30, deaths=deaths)
    )
    assert len(page.encode()) < 1_000_000


def test_what_tasks_printed_stays_text(tmp_path: Path) -> None:
    ended = {
        "ok": False,
        "exit_code": 1,
        "cause": "worker:0",
        "text": f"exited {NASTY}",
        "cause_tail": (NASTY,),
        "collateral": ("worker:1",),
        "remedy": "TensorFlow removed it (docs/tasks/estimator.md)",
    }
    story = made_up(tmp_path, tasks(1, 2), **ended)
    page = render_page(story)
    assert "<script" not in page
    assert page.count("&lt;/pre&gt;&lt;script&gt;alert(") >= 2
    assert "Failed only because of it: worker:1." in page
    assert "TensorFlow removed it (docs/tasks/estimator.md)." in page
    assert "TensorFlow removed it (docs/tasks/estimator.md)" in list(render_text(story))
    assert numbers(story)["remedy"] == "TensorFlow removed it (docs/tasks/estimator.md)"


def test_the_text_has_all_parts(tmp_path: Path) -> None:
    lines = list(render_text(made_up(tmp_path, tasks(1, 2), deaths=1)))
    assert lines[0].startswith("demo ended well: run 20260102-030405-000000aa, begun ")
    assert lines[1] == "400 steps; best evaluation, at step 400: accuracy 0.875"
    assert lines[2] == "1 restart"
    words = [line.split() for line in lines]
    assert ["worker:1", "a", "done", "0", "1"] in [line[:5] for line in words]
    assert ["ps:0", "2", "3.0", "kB", "100", "%", "w"] in words
    assert any(
        line[2:] == ["worker:1", "gets", "another", "attempt", "in", "0.5", "s"]
        or "another" in line
        for line in words
    )
    assert "model: /srv/model on a" in lines
    assert lines[-1] == "psclust 0.1.0, Python 3.12.1, TensorFlow 2.21.0"


def test_a_run_that_recorded_nothing_has_a_report_too(tmp_path: Path) -> None:
    story = made_up(tmp_path, tasks(0, 1), looks=0)
    story.folder.events.unlink()
    from psclust.cli.run_report.story import read_story

    empty = read_story(story.folder, story.status)
    assert "demo" in render_page(empty)
    assert next(iter(render_text(empty))).startswith("demo ended well")


def test_the_number_of_workers_is_drawn_where_it_changes(tmp_path: Path) -> None:
    story = made_up(tmp_path, tasks(1, 2))
    who = {"joined": ["worker:0", "worker:1"], "left": [], "dropped": []}
    first = {**record("workers", number=2, **who), "run_s": 10.0, "time": 1010.0}
    lost = {**first, "number": 1, "joined": [], "dropped": ["worker:1"], "run_s": 50.0}
    assert "workers" not in {chart.name for chart in charts(replace(story, events=[first]))}
    drawn = charts(replace(story, events=[first, lost], length_s=100.0))[0]
    assert (drawn.name, drawn.lines[0].name) == ("workers", "workers")
    assert drawn.lines[0].parts == [[(0.1, 1.0), (0.5, 1.0), (0.5, 0.5), (1.0, 0.5)]]
    assert clause_of(first) == "worker:0, worker:1 join; 2 workers"
    assert clause_of(lost) == "worker:1 is dropped; 1 worker"
