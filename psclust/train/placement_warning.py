"""A warning at the start of a training if one ps holds much more than its share."""

from __future__ import annotations

import logging

from psclust.placement.table import warning
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.towers.tower import Tower
from psclust.replication.variables.dry_build import describe

LOG = logging.getLogger(__name__)


def warn_if_uneven(tower: Tower, layout: DeviceLayout) -> None:
    """Logs one sentence, with a remedy, if the largest ps holds more than 1.2 times the mean."""
    if layout.ps > 1:
        text = warning(describe(tower), layout.ps, layout.placement)
        if text is not None:
            LOG.warning("%s", text)
