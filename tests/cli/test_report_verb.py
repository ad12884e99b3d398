"""`psclust report` at a real prompt, and its page in a real browser."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from made_up_runs import made_up, tasks

from beds.browser import browser, chromium
from beds.command import CommandBed
from psclust.cli.run_report.page import render_page
from psclust.rundir.samples_file import read_samples
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

BOXES = """[...document.querySelectorAll('#timeline .task rect.row')]
    .map(each => each.getBoundingClientRect())
    .map(box => [box.left, box.top, box.right, box.bottom])"""
WAIT = "echo '<script>document.title=1</script>'; until [ -e finish ]; do sleep 0.05; done; exit 3"


def test_a_live_run_and_a_failed_one(bed: CommandBed) -> None:
    bed.done("up", "-d", "--ps", "0", "--workers", "2", "--", "bash", "-c", WAIT)
    bed.signal("worker:1")
    bed.wait_for("worker:1", "running", attempt=2)
    wait_until(lambda: len(list(read_samples(bed.run_folder().samples))) > 2, what="samples")
    said = bed.done_here("report", "--text")
    assert said.startswith("bed is live: run ")
    assert "worker:1  attempt 1 was killed by SIGKILL" in said
    found = json.loads(bed.run_here("report", "--json")[1])
    assert (found["state"], found["ok"], found["restarts"]) == ("live", None, 1)
    assert [(task["task"], task["memory"] > 100_000, task["sent"]) for task in found["tasks"]] == [
        ("worker:0", True, 0),
        ("worker:1", True, 0),
    ]
    bed.write("finish", "")
    bed.wait_for_end()
    assert bed.done_here("report") == "bed failed; its report: bed-report.html\n"
    page = (bed.folder / "bed-report.html").read_text(encoding="utf-8")
    assert "<h2>First cause: worker:" in page
    assert "exited with code 3" in page
    assert "workers" not in page
    assert "<script" not in page
    assert "&lt;script&gt;document.title=1&lt;/script&gt;" in page


def test_where_it_cannot_be_written_is_said(bed: CommandBed) -> None:
    bed.done("up", "--ps", "0", "--workers", "1", "--", "true")
    assert bed.fails_here(2, "report", "-o", "none/page.html") == (
        "psclust: none/page.html: No such file or directory; choose another place with -o.\n"
    )
    said = bed.fails_here(2, "report", "--text", "-o", "page.html")
    assert "psclust report --text > FILE" in said
    bed.done_here("report", "-o", "page.html")
    assert (bed.folder / "page.html").stat().st_size > 1000


def test_up_says_at_a_bad_end_too_what_the_run_came_to(bed: CommandBed) -> None:
    flag = "[ -e again ] && exit 3; touch again; kill -9 $$"
    said = bed.fails(1, "up", "--ps", "0", "--workers", "1", "--", "bash", "-c", flag)
    *_, totals, last = said.splitlines()
    assert totals == "psclust: 1 restart"
    assert (
        last == "psclust: all tasks: psclust ps bed; their output: psclust logs bed; "
        "a page: psclust report bed"
    )


@pytest.mark.skipif(chromium() is None, reason="Chromium is not installed")
@pytest.mark.parametrize(
    ("width", "dark", "printed"), [(1200, False, False), (800, True, False), (800, True, True)]
)
def test_a_browser_shows_it_without_complaint_or_request(
    tmp_path: Path, width: int, dark: bool, printed: bool
) -> None:
    page = tmp_path / "page.html"
    ended = {
        "ok": False,
        "exit_code": 1,
        "cause": "worker:1",
        "text": "worker:1 exited with code 1",
        "cause_tail": ("<script>no()</script>",),
    }
    page.write_text(
        render_page(made_up(tmp_path, tasks(2, 3), deaths=2, **ended)), encoding="utf-8"
    )
    with browser(tmp_path / "profile") as window:
        window.open(page, width=width, dark=dark, printed=printed)
        assert window.complaints() == []
        assert window.requests() == [page.as_uri()]
        assert window.evaluate("document.title") == "demo: failed"
        boxes = window.evaluate(BOXES)
        assert len(boxes) == 5
        assert all(
            right - left > width / 2 and bottom - top > 5 for left, top, right, bottom in boxes
        )
        assert all(above[3] <= below[1] for above, below in pairwise(boxes))
        assert all(left >= 0 and right <= width for left, _, right, _ in boxes)
        assert window.evaluate("document.documentElement.scrollWidth") <= width
        paper = window.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(20, 24, 31)" if dark and not printed else "rgb(255, 255, 255)")
        # Every line of text is within what is drawn of its chart.
        assert window.evaluate(
            "[...document.querySelectorAll('svg text')].every(e => "
            "e.getBoundingClientRect().left >= 0)"
        )
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)
