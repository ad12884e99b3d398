"""The table of a placement as text."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.table import Row, Table, Wire, format_bytes

Cells = Sequence[Sequence[str]]
VARIABLES = ("VARIABLE", "SHAPE", "DTYPE", "BYTES", "PS", "SHARE")
TOTALS = ("PS", "VARIABLES", "BYTES", "TIMES THE MEAN")
WIRE = ("A STEP OF", "PULLED", "PUSHED", "BUSIEST PS")


def variable_cells(table: Table) -> Cells:
    return [
        (row.variable, _shape(row), row.dtype, format_bytes(row.bytes), f"ps:{row.ps}", f"{100 * row.share:.1f} %") for row in table.rows
    ]


def total_cells(table: Table) -> Cells:
    mean = sum(table.totals) / len(table.totals)
    return [
        (f"ps:{index}", str(sum(row.ps == index for row in table.rows)), format_bytes(total), f"{total / mean:.2f}" if mean else "-")
        for index, total in enumerate(table.totals)
    ]


def wire_cells(table: Table, way: str) -> Cells:
    """`way`: the plan's own, which is marked."""
    return [
        (f"{wire.way} (as planned)" if wire.way == way else wire.way, *(_bytes(wire, n) for n in (wire.pulled, wire.pushed, wire.busiest)))
        for wire in table.wire
    ]


def wire_note(table: Table) -> str | None:
    """A note if the numbers of `wire_cells` leave something out."""
    if not any(wire.at_least for wire in table.wire):
        return None
    return f"at least: how many rows a batch touches is not known before training ({', '.join(table.sparse)})"


def one_way_note(what: str | None) -> str | None:
    """A note if variables are pulled only when all gradients have been pushed. what: the reason."""
    if what is None:
        return None
    return f"{what}: a step pushes all gradients before it pulls the first variable, so it takes the time of both"


def _shape(row: Row) -> str:
    return " x ".join(map(str, row.shape)) or "scalar"


def _bytes(wire: Wire, count: int) -> str:
    return f"> {format_bytes(count)}" if wire.at_least else format_bytes(count)
