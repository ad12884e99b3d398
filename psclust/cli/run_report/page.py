"""A report as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from psclust.cli.run_report import contents
from psclust.cli.run_report.charts import Chart, Line, charts, timeline
from psclust.cli.run_report.story import Story

_LEFT, _RIGHT = 120, 985  # of the timeline, in units of its drawing
_CHART_LEFT, _CHART_RIGHT, _CHART_TOP, _CHART_BOTTOM = 74, 470, 8, 168
_WORDS = {
    "start": "starting",
    "serve": "serving",
    "serving": "serving (a program that has joined its server)",
    "run": "running",
    "train": "training",
    "save": "saving",
    "evaluate": "evaluating",
    "predict": "predicting",
    "export": "exporting",
    "finished": "finished, still serving",
    "failed": "failed",
}


def render_page(story: Story) -> str:
    # Most calls of psclust make no page.
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source).render(_values(story))


def _values(story: Story) -> dict[str, Any]:
    drawn = charts(story)
    return {
        "story": story,
        "status": story.status,
        "contents": contents,
        "timeline": timeline(story),
        "words": _WORDS,
        "charts": drawn,
        "legend": legend(drawn),
        "left": _LEFT,
        "x": lambda at: _number(_LEFT + at * (_RIGHT - _LEFT)),
        "wide": lambda width: _number(max(0.5, width * (_RIGHT - _LEFT))),
        "cx": _chart_x,
        "cy": _chart_y,
        "points": lambda part: " ".join(
            f"{_number(_chart_x(at))},{_number(_chart_y(value))}" for at, value in part
        ),
    }


def legend(drawn: Sequence[Chart]) -> list[Line]:
    """A line of each name, in the order of the tasks."""
    found = {line.name: line for chart in drawn for line in chart.lines}
    return sorted(found.values(), key=lambda line: line.color)


def _chart_x(at: float) -> float:
    return round(_CHART_LEFT + at * (_CHART_RIGHT - _CHART_LEFT), 1)


def _chart_y(value: float) -> float:
    return round(_CHART_BOTTOM - value * (_CHART_BOTTOM - _CHART_TOP), 1)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
