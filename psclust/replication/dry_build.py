"""A dry build: the model is built in graphs that are thrown away, to learn the variables that
`psclust plan` prints."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.placement.cuts import cuts
from psclust.placement.placement_settings import NONE, PlacementSettings
from psclust.placement.variable import Variable
from psclust.replication.device_layout import LOCAL, Decided
from psclust.replication.model import Model
from psclust.replication.towers.tower import build_tower
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import BuildAgain, Places
from psclust.replication.variables.training_state import create_state


def dry_build(model: Model) -> Sequence[Variable]:
    """The global variables that one replica of `model` creates for training, in order, without
    optimizer slots and psclust's own. Raises UsageError if the user's functions break their
    contract."""
    return _build(model, Places(1, PlacementSettings(max_shard_bytes=NONE)))


def why_whole(
    model: Model, variables: Sequence[Variable], ps: int, settings: PlacementSettings
) -> str | None:
    """Why `auto` partitions none of the `variables` of `dry_build`, though it would; None if
    nothing keeps it from that, or there are no `ps`."""
    decided = Decided()
    while ps and decided.whole is None and cuts(variables, ps, settings):
        try:
            _build(model, Places(ps, settings, decided))
        except BuildAgain as found:
            decided = found.decided
        else:
            break
    return decided.whole


def _build(model: Model, places: Places) -> Sequence[Variable]:
    with tf.Graph().as_default():
        state = create_state(LOCAL)
        optimizer = model.optimizer(state.global_step)
        return build_tower(model, optimizer, LOCAL, places, 0, TowerKind.alone()).described
