"""The effect of a placement: bytes on each ps, their imbalance, bytes on the wire per step, and
advice where a ps holds too much."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from psclust.placement.cuts import are_small, cuts
from psclust.placement.link_speed import LinkSpeed
from psclust.placement.partition import partition, shard_number
from psclust.placement.place import bytes_of_ps, imbalance, place
from psclust.placement.placement_settings import AUTO, PlacementSettings
from psclust.placement.policies import BALANCED
from psclust.placement.variable import Variable
from psclust.placement.wire_bytes import wire_bytes

IMBALANCE_LIMIT = 1.2
# Smaller models fit into a few packets, wherever they are.
_WORTH_PLACING = 4_000
IN_STEP = "between-graph sync"
WAYS = ("in-graph sync", "in-graph async", IN_STEP, "between-graph async")
_INDEX_BYTES = 8
# The smallest `max_shard_bytes` that is advised.
_SMALLEST_SHARD = 1 << 10


@dataclass(frozen=True, slots=True)
class Row:
    """One variable, or one shard. share: of all bytes, 0 to 1."""

    variable: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    ps: int
    share: float


@dataclass(frozen=True, slots=True)
class Wire:
    """Bytes between ps and replicas in one step of one way to train. busiest: bytes of the ps with
    the most traffic.

    one_direction: the most that one task's link carries in one direction while every replica makes
    a step; both_directions: in both. A synchronous step takes one gradient of every replica, an
    asynchronous step one of a single replica. A replica pulls every trained variable once and
    pushes its gradient once. at_least: sparse variables are not counted, because the rows a batch
    touches are unknown.
    """

    way: str
    pulled: int
    pushed: int
    busiest: int
    at_least: bool
    one_direction: int
    both_directions: int

    def seconds(self, link: LinkSpeed, *, at_once: bool) -> float:
        """How long the busiest link is in use. at_once: variables come back while gradients
        leave."""
        return (self.one_direction if at_once else self.both_directions) / link.bytes_s


@dataclass(frozen=True, slots=True)
class Table:
    """rows: in the order of the variables. totals: bytes of each ps. imbalance: the largest total
    over the mean. sparse: variables of which only rows travel. warning: a sentence if one ps holds
    too much. advised: `wire` after the change that it advises."""

    rows: tuple[Row, ...]
    totals: tuple[int, ...]
    imbalance: float
    wire: tuple[Wire, ...]
    sparse: tuple[str, ...]
    warning: str | None
    advised: tuple[Wire, ...] = ()


def tabulate(
    variables: Sequence[Variable],
    ps: int,
    settings: PlacementSettings,
    *,
    workers: int,
    wire_dtype: str | None = None,
    one_way: Collection[str] = (),
) -> Table:
    """The table of whole `variables` on `ps` parameter servers and `workers` replicas. one_way:
    those of WAYS in which workers do not compute from copies of their own. Raises UsageError for an
    impossible pin."""
    pieces, placed, totals = _place(variables, ps, settings)
    total, better = sum(totals), _better(variables, ps, settings)

    def wires(settings: PlacementSettings) -> tuple[Wire, ...]:
        pieces, placed, _ = _place(variables, ps, settings)
        return tuple(_wire(way, pieces, placed, ps, workers, wire_dtype, one_way) for way in WAYS)

    rows = tuple(
        Row(
            piece.name,
            piece.shape,
            piece.dtype,
            piece.bytes,
            placed[piece.name],
            piece.bytes / total if total else 0.0,
        )
        for piece in pieces
    )
    return Table(
        rows=rows,
        totals=totals,
        imbalance=imbalance(totals),
        wire=wires(settings),
        sparse=tuple(
            variable.name for variable in variables if variable.trained and variable.sparse
        ),
        warning=warning(variables, ps, settings),
        advised=wires(better) if better else (),
    )


@dataclass(frozen=True, slots=True)
class Held:
    """The variables on one ps, without optimizer slots. variables: how many, or shards of them.
    largest: the name of one with the most bytes; None if there are none."""

    variables: int
    bytes: int
    largest: str | None


def held(variables: Sequence[Variable], ps: int, settings: PlacementSettings) -> tuple[Held, ...]:
    """Of whole `variables` on each of `ps` parameter servers. Raises UsageError for an impossible
    pin."""
    pieces, placed, totals = _place(variables, ps, settings)
    there = [[piece for piece in pieces if placed[piece.name] == index] for index in range(ps)]
    largest = (max(each, key=lambda piece: piece.bytes).name if each else None for each in there)
    return tuple(
        Held(len(each), total, name)
        for each, total, name in zip(there, totals, largest, strict=True)
    )


def warning(variables: Sequence[Variable], ps: int, settings: PlacementSettings) -> str | None:
    """One sentence if the fullest ps holds more than 1.2 times the mean of a model that is not
    tiny: which ps, how much, and a change that was verified to help."""
    pieces, placed, totals = _place(variables, ps, settings)
    uneven = imbalance(totals)
    if uneven <= IMBALANCE_LIMIT or sum(totals) < _WORTH_PLACING:
        return None
    if settings.max_shard_bytes == AUTO and are_small(variables, ps):
        return None
    largest = max(range(ps), key=totals.__getitem__)
    cause = max(
        (piece for piece in pieces if placed[piece.name] == largest), key=lambda piece: piece.bytes
    )
    share = totals[largest] / sum(totals)
    text = (
        f"ps:{largest} holds {int(100 * share)} % of the variables' bytes "
        f"({uneven:.1f} times the mean)"
    )
    alone = cause.bytes * ps > IMBALANCE_LIMIT * sum(totals)
    if alone:
        text += f", {format_bytes(cause.bytes)} of them in {cause.name}"
    return f"{text}; {_advice(variables, ps, settings, cause)}"


def _better(
    variables: Sequence[Variable], ps: int, settings: PlacementSettings
) -> PlacementSettings | None:
    """The smallest change that brings the imbalance under the limit; None if it is under it
    already, or none does."""
    if imbalance(_place(variables, ps, settings)[2]) <= IMBALANCE_LIMIT:
        return None
    mean = sum(variable.bytes for variable in variables) // ps
    # A power of two, at most an eighth of the mean: nothing that is cut so makes a ps uneven.
    size = max(_SMALLEST_SHARD, 1 << max(0, mean.bit_length() - 4))
    candidates = (
        replace(settings, max_shard_bytes=AUTO),
        replace(settings, policy=BALANCED),
        replace(settings, policy=BALANCED, max_shard_bytes=size),
    )
    return next(
        (
            candidate
            for candidate in candidates
            if imbalance(_place(variables, ps, candidate)[2]) <= IMBALANCE_LIMIT
        ),
        None,
    )


def _advice(
    variables: Sequence[Variable], ps: int, settings: PlacementSettings, cause: Variable
) -> str:
    found = _better(variables, ps, settings)
    if found is not None and found.max_shard_bytes == settings.max_shard_bytes:
        alone = not settings.pin and settings.max_shard_bytes == AUTO
        return f"write placement: {BALANCED}" if alone else f"write policy: {BALANCED}"
    if found is not None and found.max_shard_bytes == AUTO:
        return f"write max_shard_bytes: {AUTO} to partition {cause.whole or cause.name}"
    if found is not None and isinstance(found.max_shard_bytes, int):
        limit = format_size(found.max_shard_bytes)
        return (
            f"write placement: {{policy: {BALANCED}, max_shard_bytes: "
            f"{limit}}} to partition {cause.whole or cause.name}"
        )
    if settings.pinned(cause.name, cause.whole) is not None:
        return f"{cause.name} is pinned there: change the pin, or pin it by shards"
    if not cause.divisible and cause.whole is None:
        return (
            f"{cause.name} was not made with tf.compat.v1.get_variable, "
            "so it cannot be partitioned: make it so, or use fewer ps"
        )
    return f"no other placement of these {len(variables)} variables is even; use fewer ps"


def _place(
    variables: Sequence[Variable], ps: int, settings: PlacementSettings
) -> tuple[list[Variable], dict[str, int], tuple[int, ...]]:
    """(variables and shards, name -> ps index of each, bytes on each ps)."""
    pieces = partition(variables, cuts(variables, ps, settings))
    placed = place(pieces, ps, settings)
    return pieces, placed, tuple(bytes_of_ps(pieces, placed, ps))


def _wire(
    way: str,
    pieces: Sequence[Variable],
    placed: dict[str, int],
    ps: int,
    workers: int,
    wire_dtype: str | None,
    one_way: Collection[str],
) -> Wire:
    replicas = workers if way.endswith(" sync") else 1
    pulled, pushed = [0] * ps, [0] * ps
    unknown = False
    for piece in pieces:
        if not piece.trained:
            continue
        if piece.sparse and piece.rows is None:
            unknown = True
            continue
        rows = _touched(piece) if piece.sparse else 0
        row_elements = piece.elements // max(1, piece.shape[0] if piece.shape else 1)
        elements = rows * row_elements if piece.sparse else piece.elements
        # What comes back to a copy is its difference, which is rounded like a gradient.
        pull = wire_bytes(piece, elements, wire_dtype, in_blocks=way not in one_way)
        push = wire_bytes(piece, elements, wire_dtype, in_blocks=True) + rows * _INDEX_BYTES
        pulled[placed[piece.name]] += pull * replicas
        pushed[placed[piece.name]] += push * replicas
    both = [pull + push for pull, push in zip(pulled, pushed, strict=True)]
    one = [max(pair) for pair in zip(pulled, pushed, strict=True)]
    links = (_busiest_link(counts, workers, replicas) for counts in (one, both))
    return Wire(way, sum(pulled), sum(pushed), max(both), unknown, *links)


def _busiest_link(counts: Sequence[int], workers: int, replicas: int) -> int:
    """counts: bytes of each ps in a step of `replicas`. The link of a ps carries as many for each
    worker, that of a worker those of one replica from all ps."""
    return max(max(counts) * workers, sum(counts)) // max(1, replicas)


def _touched(piece: Variable) -> int:
    """How many of its rows a batch touches, where that is known. Their spread over the shards of a
    table depends on the data; assume an even one."""
    rows = piece.rows or 0
    if piece.whole is None:
        return rows
    number = shard_number(piece.name)
    return rows * (number + 1) // piece.shards - rows * number // piece.shards


def format_bytes(count: float) -> str:
    """`512 B`, `1.5 kB`, `64.0 MB`: powers of 1000, as networks are sold."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def format_size(count: int) -> str:
    """A size as the cluster file writes it: `8MiB`, `64KiB`, or the number of bytes."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)
