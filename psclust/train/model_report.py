"""The chief's one report about the model that it trains: where it is written, and which ps
holds how much of it."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from pathlib import Path

import tensorflow as tf

from psclust.placement.placement_settings import NONE
from psclust.placement.table import held, warning
from psclust.placement.table_text import whole_note
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.towers.tower import Tower
from psclust.train.reporter import Reporter

LOG = logging.getLogger(__name__)


def report_model(reporter: Reporter, folder: Path, tower: Tower, layout: DeviceLayout) -> None:
    """Puts it into the progress. folder: of the checkpoints; layout: for which the graph was built.
    Logs why `auto` partitions nothing, and one sentence, with a remedy, if the largest ps holds
    more than 1.2 times the mean."""
    variables, placement, whole = tower.described, layout.placement, layout.decided.whole
    if whole:
        placement = replace(placement, max_shard_bytes=NONE)
        LOG.info("%s", whole_note(whole))
    ps = [asdict(each) for each in held(variables, layout.ps, placement)] if layout.ps else []
    reporter.model({"folder": str(folder.absolute()), "tensorflow": tf.__version__, "ps": ps})
    text = warning(variables, layout.ps, placement) if layout.ps > 1 and not whole else None
    if text is not None:
        LOG.warning("%s", text)
