"""The image-to-image example: pixels of digits are told apart, and every tower shows its
pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.examples.segmentation import scenes

pytestmark = [pytest.mark.tensorflow]

# (tag, height, width, color channels)
EXPECTED = {("scene", 24, 24, 1), ("truth", 24, 24, 3), ("guess", 24, 24, 3)}


def _pictures(folder: Path) -> set[tuple[str, int, int, int]]:
    """The images in event files."""
    events = (
        event
        for file in folder.glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(file))
    )
    values = (value for event in events for value in event.summary.value if value.HasField("image"))
    return {
        (value.tag.partition("/")[0], value.image.height, value.image.width, value.image.colorspace)
        for value in values
    }


@pytest.mark.long
@pytest.mark.process
def test_towers_that_keep_their_own_statistics_learn_and_show_their_own_pictures(
    up_example: Callable[..., Any],
) -> None:
    ran = up_example("segmentation", "--set", "epochs=3", "--set", "decay_steps=80")
    # Of eleven classes; whoever says background everywhere has a mean intersection over union of
    # 0.07 and no ink right.
    assert ran.metrics["ink_accuracy"] >= 0.35
    assert ran.metrics["mean_iou"] >= 0.3
    assert _pictures(ran.model_dir) == _pictures(ran.model_dir / "tower_1") == EXPECTED


def test_a_scene_has_four_digits_and_its_ink_their_labels() -> None:
    images, classes = scenes(5, held_out=True)
    assert images.shape == classes.shape == (5, 24, 24)
    assert ((images >= 4) == (classes > 0)).all()
    for half in (classes[:, :12], classes[:, 12:]):
        for quarter in (half[:, :, :12], half[:, :, 12:]):
            assert [len(np.unique(one[one > 0])) for one in quarter] == [1] * 5
