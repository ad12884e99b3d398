"""The figures of docs/performance.md, one function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from rows import Row

_OURS = ("psclust", "between-graph", "in-graph")
_BLUE, _GREY = "#1f77b4", "#b0b0b0"
# The same numbers give the same file.
mpl.rcParams.update(
    {
        "svg.hashsalt": "psclust",
        "font.size": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


def draw(found: Sequence[Row], folder: Path) -> None:
    """Writes a figure for each benchmark of `found`: one of "wire at 1 Gbit/s" and "wire at 10
    Gbit/s" together."""
    for name, plot in PLOTS.items():
        if measured := [row for row in found if row.benchmark.split(" at ")[0] == name]:
            plot(measured).savefig(
                folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight"
            )


def wire(found: Sequence[Row]) -> Figure:
    """Seconds a step of the skewed model, a panel for each link."""
    skewed = [row for row in found if row.case == "skewed"]
    links = list(dict.fromkeys(row.benchmark for row in skewed))
    figure = Figure(figsize=(9, 3.5))
    for axes, link in zip(_panels(figure, len(links)), links, strict=True):
        measured = {row.way: row.value for row in skewed if row.benchmark == link}
        bound = measured.pop("the wire")
        _bars(axes, measured)
        axes.axvline(bound, color="black", linestyle="--", linewidth=0.8)
        axes.set_title(f"the skewed model, {link.split(' at ')[1]} (dashed: the wire)")
        axes.set_xlabel("seconds a step")
    return figure


def replication(found: Sequence[Row]) -> Figure:
    """Batches a second as a multiple of by hand, a panel for each model."""
    cases = _cases(found)
    figure = Figure(figsize=(9, 2.5))
    for axes, case in zip(_panels(figure, len(cases)), cases, strict=True):
        measured = {row.way: row.value for row in found if row.case == case}
        by_hand = {update: measured.get(f"by hand {update}") for update in ("sync", "async")}
        ratios = {
            way: value / hand
            for way, value in measured.items()
            if not way.startswith("by hand")
            and (hand := by_hand["sync" if way.endswith(" sync") else "async"])
        }
        _bars(axes, ratios)
        axes.axvline(1.0, color="black", linestyle="--", linewidth=0.8)
        axes.set_title(case)
        axes.set_xlabel("batches a second, by hand = 1")
    return figure


def launch(found: Sequence[Row]) -> Figure:
    """Seconds until N servers accept."""
    return _lines(
        [row for row in found if row.unit == "s"],
        lambda row: int(row.case),
        "servers",
        "seconds until all accept",
    )


def hosts(found: Sequence[Row]) -> Figure:
    """Seconds to bring clusters of more hosts up and down."""
    timed = [row for row in found if row.way in ("up", "down")]
    return _lines(
        timed,
        lambda row: int(row.case.split()[0]),
        "hosts of four servers, on one machine",
        "seconds",
    )


def scale(found: Sequence[Row]) -> Figure:
    """Seconds of a synchronous step as workers and ps grow."""
    steps = [
        replace(row, way=row.case.split(", ")[1])
        for row in found
        if row.way == "step" and row.case.endswith(", sync")
    ]
    return _lines(
        steps,
        lambda row: int(row.case.split()[0]),
        "workers, on two cores",
        "seconds of a synchronous step",
    )


def placement(found: Sequence[Row]) -> Figure:
    """The least even of ten models under each policy."""
    worst: dict[tuple[int, str], Row] = {}
    for row in found:
        key = int(row.case.split(", ")[1].split()[0]), row.way
        worst[key] = max(worst.get(key, row), row, key=lambda each: each.value)
    worst_rows = [
        Row("placement", str(ps), way, row.unit, [row.value]) for (ps, way), row in worst.items()
    ]
    return _lines(
        worst_rows,
        lambda row: int(row.case),
        "ps tasks",
        "fullest ps over the mean, worst of ten models",
    )


PLOTS: Mapping[str, Callable[[Sequence[Row]], Figure]] = {
    "wire": wire,
    "replication": replication,
    "launch": launch,
    "hosts": hosts,
    "scale": scale,
    "placement": placement,
}


def _cases(found: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.case for row in found))


def _panels(figure: Figure, count: int) -> Sequence[Any]:
    found: Sequence[Any] = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    return found


def _bars(axes: Any, values: Mapping[str, float]) -> None:
    colors = [_BLUE if way.startswith(_OURS) else _GREY for way in values]
    bars = axes.barh(list(values), list(values.values()), color=colors)
    axes.bar_label(bars, fmt="%.2f", padding=2)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()


def _lines(found: Sequence[Row], x: Callable[[Row], int], x_label: str, y_label: str) -> Figure:
    figure = Figure(figsize=(5, 3))
    axes = figure.subplots()
    for way in dict.fromkeys(row.way for row in found):
        points = sorted((x(row), row.value) for row in found if row.way == way)
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=way)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.legend(frameon=False)
    return figure
