"""A check that all between-graph workers build the chief's variables, each on the same ps;
otherwise two workers train two models, or wait for a variable that is never initialized. The chief
writes a list of its variables to the first ps, and every other worker compares its own. The list
also has the number of towers if each tower reads its own shard of the data, the parts of the data
if they are handed out, and the variables that synchronous workers stream.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError, UsageError
from psclust.placement.partition import Cut
from psclust.placement.variable import Variable
from psclust.replication.device_function import is_slot
from psclust.replication.device_layout import Decided, DeviceLayout
from psclust.replication.parts.part_list import PartList
from psclust.replication.tf_types import Session
from psclust.replication.variables.descriptions import cuts_of, pieces
from psclust.spec.jobs import PS

_POLL_S = 0.1
_NAMED = 5


def refuse_unshared(variables: Sequence[Any], layout: DeviceLayout) -> None:
    """Raises UsageError if global variables are on no ps while several workers train: each would
    have its own, and only the chief's are initialized."""
    if len(layout.workers) < 2:
        return
    by_device: dict[str, list[str]] = {}
    for variable in variables:
        if not is_slot(variable) and tf.DeviceSpec.from_string(variable.device).job != PS:
            by_device.setdefault(variable.device, []).append(variable.op.name)
    if by_device:
        found = [
            f"{', '.join(_some(names))} {f'on {device}' if device else 'on no device'}"
            for device, names in by_device.items()
        ]
        raise UsageError(
            f"variables that the workers share are not on a ps: {'; '.join(found)}. "
            "Create them without tf.device(None) and without naming a worker's device; "
            "put a variable of each worker's own in collections=[tf.GraphKeys.LOCAL_VARIABLES]"
        )


class Agreement:
    """One client's side of the check. Adds its ops to the current graph. variables: the model's, in
    this graph. towers: the number that all workers must have; None: any. streamed: the names of the
    variables whose gradients all workers must push in every step. parts: that are handed out."""

    def __init__(
        self,
        variables: Sequence[Any],
        layout: DeviceLayout,
        towers: int | None = None,
        streamed: Sequence[str] = (),
        parts: PartList | None = None,
    ) -> None:
        self._mine = pieces(variables)
        self._cuts, self._decided = cuts_of(variables), layout.decided
        self._towers = towers
        self._streamed = sorted(streamed)
        self._parts = [len(parts.parts), parts.digest] if parts is not None else None
        with tf.device(layout.parameters):
            # In no collection, so that it is not initialized, saved or restored with the model's
            # variables.
            shared = tf.compat.v1.get_variable(
                "psclust/variables",
                [],
                tf.string,
                tf.compat.v1.constant_initializer(""),
                trainable=False,
                collections=[],
                use_resource=True,
            )
            self._text = tf.compat.v1.placeholder(tf.string, [], name="variables")
            self._publish = shared.assign(self._text, read_value=False)
            self._published = tf.raw_ops.VarIsInitializedOp(resource=shared.handle)
            self._read = shared.read_value()

    def publish(self, session: Session) -> None:
        """Writes the chief's list."""
        entries = [
            [variable.name, list(variable.shape), variable.dtype, ps] for variable, ps in self._mine
        ]
        session.run(
            self._publish,
            {
                self._text: json.dumps(
                    {
                        "variables": entries,
                        "cuts": {name: [cut.axis, cut.sizes] for name, cut in self._cuts.items()},
                        "towers": self._towers,
                        "streamed": self._streamed,
                        "parts": self._parts,
                    }
                )
            },
        )

    def compare(self, session: Session, me: str, chief: str, deadline_s: float) -> Decided | None:
        """Compares this worker's variables with the chief's list, once that is written. Returns
        None if both agree, and what the chief has decided if variables are cut otherwise, or on
        other ps tasks, because they were created in another order. Raises PsclustError if the
        variables or the numbers of towers differ, or if there is no list after `deadline_s`
        seconds."""
        end = time.monotonic() + deadline_s
        while not session.run(self._published):
            if time.monotonic() > end:
                raise PsclustError(
                    f"after {deadline_s:.0f} s {chief}, the chief, has not built its graph; "
                    "see its output with `psclust logs`"
                )
            time.sleep(_POLL_S)
        listed = json.loads(session.run(self._read))
        if listed["towers"] != self._towers:
            raise PsclustError(
                f"{me} has {self._towers} devices for towers and {chief}, "
                f"the chief, has {listed['towers']}, "
                "but each tower reads its own shard of the data, so the workers must agree: "
                "give all the same device_count, or share batches with split_batch=True"
            )
        if listed["parts"] != self._parts:
            own, chiefs = (each[0] if each else "no" for each in (self._parts, listed["parts"]))
            raise PsclustError(
                f"{me} has {own} parts of the data and {chief}, the chief, {chiefs}, or others: "
                "data_parts must give all workers the same list; leave new files to the next "
                "training"
            )
        theirs = [
            (Variable(name, tuple(shape), dtype), ps)
            for name, shape, dtype, ps in listed["variables"]
        ]
        placed = {variable.name: ps for variable, ps in theirs}
        cuts = {name: Cut(axis, tuple(sizes)) for name, (axis, sizes) in listed["cuts"].items()}
        if cuts not in (self._cuts, self._decided.cuts):
            return Decided(placed, cuts)
        found = differences(
            {v.name: v for v, _ in self._mine}, {v.name: v for v, _ in theirs}, chief
        )
        if found:
            raise PsclustError(
                f"{me} builds other variables than {chief}, the chief: {'; '.join(found)}. "
                "model_fn must create the same variables in every worker"
            )
        other = sorted(set(self._streamed) ^ set(listed["streamed"]))
        if other:
            raise PsclustError(
                f"the loss depends on {', '.join(_some(other))} in only one of {me} and {chief}, "
                "the chief, and a step needs a gradient of every variable from every worker; "
                "train with --config local_copies=false, which needs none where a worker has none"
            )
        mine = {variable.name: ps for variable, ps in self._mine}
        return None if placed == mine else Decided(placed, cuts)


def differences(
    mine: Mapping[str, Variable], theirs: Mapping[str, Variable], chief: str
) -> list[str]:
    """The differences, with both sides, as parts of a sentence: the first five of each kind."""
    both = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    parts = _some(
        [
            f"{name} is {_kind(mine[name])} here and {_kind(theirs[name])} on {chief}"
            for name in both
        ]
    )
    parts += _some(
        [f"{name} {_kind(mine[name])} is only here" for name in mine if name not in theirs]
    )
    return parts + _some(
        [f"{name} {_kind(theirs[name])} is only on {chief}" for name in theirs if name not in mine]
    )


def _some(parts: list[str]) -> list[str]:
    return (
        parts
        if len(parts) <= _NAMED
        else [*parts[:_NAMED], f"and {len(parts) - _NAMED} more like it"]
    )


def _kind(variable: Variable) -> str:
    return f"{variable.dtype} {list(variable.shape)}"
