"""Sums across replicas in the middle of a model, for moments of the batch of all of them.

Towers of one graph are built one after another, so the sum that the first one needs does not exist yet when it is built. It gets a
stand-in, which is connected when all towers are there; then the sum is plain edges of one graph. Where a graph has a part of the towers
only, its sum is exchanged with the other graphs'.

Between graphs the same sum goes through the ps. Every replica owns one accumulator for each exchange, adds its value to those of all
replicas, stamped with the round of the barrier, and waits until its own has heard everybody. As nobody takes from another's accumulator,
nothing needs to be handed out, and values of an older round are refused as gradients are. A value is added up once for each replica
that reads it; moments are a few numbers a channel.

Both sums are differentiated by the same exchange: d(sum over all losses)/d(value of one replica) is the sum of the gradients that the
total has in all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.device_layout import Layout
from psclust.replication.settings import Settings

_Key = tuple[int, str, int]


@dataclass
class _Exchange:
    """Numbers the exchanges of one replica in the order of the model, forward and backward ones apart."""

    index: int
    replicas: int
    build: Callable[[_Key, Any], Any]
    _count: int = 0

    def total(self, value: Any) -> Any:
        number, self._count = self._count, self._count + 1
        backward = 0

        def total(value: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                nonlocal backward
                backward += 1
                return self.build((number, "backward", backward), upstream)

            return self.build((number, "forward", 0), value), gradient

        return tf.custom_gradient(total)(value)


@dataclass
class GraphExchange:
    """Between the towers of one graph: `towers` of them here, of `replicas` in all. outer: the exchange between graphs, for the sum of
    those here; None where all are here."""

    towers: int
    replicas: int | None = None
    outer: _Exchange | None = None
    _values: dict[_Key, dict[int, Any]] = field(default_factory=dict)
    _stand_ins: dict[_Key, dict[int, Any]] = field(default_factory=dict)

    def tower(self, index: int) -> _Exchange:
        def build(key: _Key, value: Any) -> Any:
            self._values.setdefault(key, {})[index] = value
            # An identity of a placeholder, not of a constant: what is connected later must not be folded away before.
            stand_in = tf.identity(tf.compat.v1.placeholder(value.dtype, _static(value)), name="exchange")
            self._stand_ins.setdefault(key, {})[index] = stand_in
            return stand_in

        return _Exchange(index, self.replicas or self.towers, build)

    def connect(self) -> None:
        """Puts the sums in, when all towers and their gradients have been built. Raises UsageError where the towers differ."""
        for key, values in self._values.items():
            if key[1] == "forward" and len(values) != self.towers:
                raise UsageError(
                    f"model_fn normalizes a batch in {len(values)} of {self.towers} towers only; with moving_statistics 'sync' "
                    "all towers must build the same layers"
                )
            with tf.name_scope("exchange"):
                total = tf.add_n([values[index] for index in sorted(values)])
                if self.outer is not None:
                    total = self.outer.build(key, total)
            for stand_in in self._stand_ins[key].values():
                # TensorFlow offers no public way to close an edge backwards; its own control flow gradients use this one.
                stand_in.op._update_input(0, total)


@dataclass
class BarrierExchange:
    """Between replicas in graphs of their own, in step with the barrier. round: int64 scalar placeholder, the number of the round.
    accumulators: all of them, those of the other replicas included, and their shapes."""

    layout: Layout
    round: Any = field(default_factory=lambda: tf.compat.v1.placeholder(tf.int64, [], name="round"))
    accumulators: list[tuple[Any, Any]] = field(default_factory=list)

    def replica(self, index: int) -> _Exchange:
        def build(key: _Key, value: Any) -> Any:
            name = f"psclust/exchange/{'_'.join(map(str, key))}"
            with tf.device(self._device(key)):
                own = [self._accumulator(f"{name}/{i}", value) for i in range(len(self.layout.workers))]
                with tf.control_dependencies([accumulator.apply_grad(value, local_step=self.round) for accumulator in own]):
                    return tf.ensure_shape(own[index].take_grad(len(own)), _static(value))

        return _Exchange(index, len(self.layout.workers), build)

    def _device(self, key: _Key) -> str:
        return f"/job:ps/task:{key[0] % self.layout.ps}"

    def _accumulator(self, name: str, value: Any) -> Any:
        shape = _static(value)
        accumulator = tf.compat.v1.ConditionalAccumulator(value.dtype, shape=shape, shared_name=name, reduction_type="SUM")
        self.accumulators.append((accumulator, shape))
        return accumulator

    def release(self, round_: Any) -> Any:
        """The op that lets everybody who waits in an exchange go on, with ones for the values that are missing: numbers that keep the rest
        of the model finite, for a round that will not count."""

        def fill(accumulator: Any, shape: Any) -> Sequence[Any]:
            ones = tf.ones(shape, accumulator.dtype)
            return [accumulator.apply_grad(ones, local_step=round_) for _ in self.layout.workers]

        return tf.group(*[op for a, shape in self.accumulators for op in self._at(a, fill, a, shape)])

    def open(self, round_: Any) -> Any:
        """The op that refuses values older than `round_` from now on."""
        return tf.group(*[self._at(a, a.set_global_step, round_) for a, _ in self.accumulators])

    def counts(self) -> Sequence[Any]:
        """int32, one an accumulator: how many values each holds."""
        return [self._at(a, a.num_accumulated) for a, _ in self.accumulators]

    def discard(self) -> Sequence[Any]:
        """One op an accumulator that empties it."""
        return [self._at(a, a.take_grad, 1).op for a, _ in self.accumulators]

    def _at(self, accumulator: Any, build: Any, *arguments: Any) -> Any:
        with tf.device(accumulator.accumulator_ref.device):
            return build(*arguments)


def check_statistics(settings: Settings, layout: Layout, *, sync: bool) -> bool:
    """Whether the replicas exchange moments. Raises UsageError where they are to and cannot."""
    if settings.moving_statistics != "sync" or len(layout.workers) < 2:
        return False
    if not sync:
        raise UsageError(
            "moving_statistics 'sync' takes moments over the batches of all replicas, and asynchronous replicas have no batch in common; "
            "train with --sync, or choose moving_statistics 'mean'"
        )
    if settings.accumulate > 1:
        raise UsageError(
            f"moving_statistics 'sync' needs all batches of an update at once, and accumulate={settings.accumulate} computes them one "
            "after another; choose moving_statistics 'mean', or more replicas instead of accumulate"
        )
    return True


def _static(value: Any) -> Any:
    if not value.shape.is_fully_defined():
        raise UsageError(f"moving_statistics 'sync' exchanges tensors of known shape between replicas; this one has shape {value.shape}")
    return value.shape
