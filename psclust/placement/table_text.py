"""The table of a placement as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psclust.placement.link_speed import LinkSpeed
from psclust.placement.table import Row, Table, Wire, format_bytes

Cells = Sequence[Sequence[str]]
VARIABLES = ("VARIABLE", "SHAPE", "DTYPE", "BYTES", "PS", "SHARE")
TOTALS = ("PS", "VARIABLES", "BYTES", "TIMES THE MEAN")
# What a step with shards on a second ps took longer, at a speed at which bytes did not count: 1 to
# 2.5 ms with four hosts on two cores.
_MESSAGES_S = 0.001


def variable_cells(table: Table) -> Cells:
    return [
        (
            row.variable,
            _shape(row),
            row.dtype,
            format_bytes(row.bytes),
            f"ps:{row.ps}",
            f"{100 * row.share:.1f} %",
        )
        for row in table.rows
    ]


def total_cells(table: Table) -> Cells:
    mean = sum(table.totals) / len(table.totals)
    return [
        (
            f"ps:{index}",
            str(sum(row.ps == index for row in table.rows)),
            format_bytes(total),
            f"{total / mean:.2f}" if mean else "-",
        )
        for index, total in enumerate(table.totals)
    ]


def wire_heads(link: LinkSpeed) -> Sequence[str]:
    return ("A STEP OF", "PULLED", "PUSHED", "BUSIEST PS", f"AT {link.text}")


def wire_cells(table: Table, way: str, link: LinkSpeed, one_way: Mapping[str, str]) -> Cells:
    """`way`: the plan's own, which is marked. one_way: as in `one_way_note`."""
    return [
        (
            f"{wire.way} (as planned)" if wire.way == way else wire.way,
            *(_bytes(wire, count) for count in (wire.pulled, wire.pushed, wire.busiest)),
            _at_least(wire, _seconds(wire, link, one_way)),
        )
        for wire in table.wire
    ]


def _time(wire: Wire, link: LinkSpeed, one_way: Mapping[str, str]) -> float:
    return wire.seconds(link, at_once=wire.way not in one_way)


def _seconds(wire: Wire, link: LinkSpeed, one_way: Mapping[str, str]) -> str:
    seconds = _time(wire, link, one_way)
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def gain_note(table: Table, way: str, link: LinkSpeed, one_way: Mapping[str, str]) -> str | None:
    """How much sooner a step's last byte arrives after the change that the table's warning
    advises."""
    now, then = (
        next((w for w in wires if w.way == way), None) for wires in (table.wire, table.advised)
    )
    if now is None or then is None:
        return None
    text = (
        f"With it, a step would take the busiest link {_seconds(then, link, one_way)} in place of "
        f"{_seconds(now, link, one_way)}."
    )
    saved = _time(now, link, one_way) - _time(then, link, one_way)
    return (
        text
        if saved > _MESSAGES_S
        else f"{text} The messages to more ps may take longer than that saves."
    )


def wire_note(table: Table) -> str | None:
    """A note if the numbers of `wire_cells` leave something out."""
    if not any(wire.at_least for wire in table.wire):
        return None
    return (
        "at least: how many rows a batch touches is not known before training "
        f"({', '.join(table.sparse)})"
    )


def whole_note(whole: str | None) -> str | None:
    """A note if `auto` partitions no variable because of `whole`."""
    if whole is None:
        return None
    return (
        f"variables are not partitioned: {whole}; max_shard_bytes: 1MB partitions them all the same"
    )


def one_way_note(one_way: Mapping[str, str], way: str) -> str | None:
    """A note if variables are pulled only when all gradients have been pushed. one_way: way -> the
    reason, of those where it is so."""
    if way not in one_way:
        return None
    return (
        f"{one_way[way]}: a step pushes all gradients before it pulls the first variable, "
        "so it takes the time of both"
    )


def _shape(row: Row) -> str:
    return " x ".join(map(str, row.shape)) or "scalar"


def _bytes(wire: Wire, count: int) -> str:
    return _at_least(wire, format_bytes(count))


def _at_least(wire: Wire, text: str) -> str:
    return f"> {text}" if wire.at_least else text
