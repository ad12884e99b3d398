"""The chief's one report about the model that it trains: where it is written, and which ps
holds how much of it."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

import tensorflow as tf

from psclust.placement.table import held, warning
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.dry_build import describe
from psclust.replication.towers.tower import Tower
from psclust.train.reporter import Reporter

LOG = logging.getLogger(__name__)


def report_model(reporter: Reporter, folder: Path, tower: Tower, layout: DeviceLayout) -> None:
    """Puts it into the progress. folder: of the checkpoints. Logs one sentence, with a remedy, if
    the largest ps holds more than 1.2 times the mean."""
    variables = describe(tower)
    ps = (
        [asdict(each) for each in held(variables, layout.ps, layout.placement)] if layout.ps else []
    )
    reporter.model({"folder": str(folder.absolute()), "tensorflow": tf.__version__, "ps": ps})
    text = warning(variables, layout.ps, layout.placement) if layout.ps > 1 else None
    if text is not None:
        LOG.warning("%s", text)
