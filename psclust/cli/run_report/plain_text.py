"""A report as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psclust.cli.run_report import contents
from psclust.cli.run_report.story import Story
from psclust.cli.summary import render_totals


def render_text(story: Story) -> Iterator[str]:
    """Its lines; those of tables are as wide as their cells."""
    status = story.status
    yield (
        f"{status.name} {story.outcome}: run {status.run}, begun {contents.began(story)}, "
        f"{contents.length(story)}"
    )
    yield from render_totals(story.totals)
    if story.failed:
        yield from ("", f"first cause: {status.text}", *(f"  {line}" for line in status.cause_tail))
        if status.remedy:
            yield status.remedy
        if status.collateral:
            yield f"failed only because of it: {', '.join(status.collateral)}"
    elif story.reason:
        yield f"it ended because: {story.reason}"
    yield from _table(contents.task_cells(story))
    if held := contents.placement(story):
        rows = [
            (each.ps, str(each.variables), each.bytes, f"{each.percent} %", each.largest)
            for each in held
        ]
        yield from _table(
            contents.Cells(("ps", "variables", "bytes", "share", "the largest"), rows, (1, 2, 3))
        )
    yield from _table(contents.event_cells(story))
    yield ""
    yield from (f"{title}: {place}" for title, place in contents.places(story))
    yield contents.versions(story)


def _table(cells: contents.Cells) -> Iterator[str]:
    if not cells.rows:
        return
    lines = [
        [cell.replace("\n", " ") for cell in row]
        for row in ([title.upper() for title in cells.head], *cells.rows)
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield ""
    yield from (_line(line, widths, cells.numbers) for line in lines)
    if cells.left_out:
        yield f"({cells.left_out} more are not shown)"


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[int]) -> str:
    found = (
        cell.rjust(width) if at in numbers else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(found).rstrip()
