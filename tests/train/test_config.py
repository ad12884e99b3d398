"""The settings of a training and their command line."""

from __future__ import annotations

from typing import Any

import pytest

from psclust.errors import UsageError
from psclust.train.config import TrainConfig, changed


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("clip_norm=1", "clip_norm", 1.0),
        ("clip_norm=none", "clip_norm", None),
        ("accumulate=4", "accumulate", 4),
        ("wire_dtype=bfloat16", "wire_dtype", "bfloat16"),
        ("wire_dtype=int8", "wire_dtype", "int8"),
        ("profile_steps=[5, 9]", "profile_steps", (5, 9)),
        ("profile_steps=5", "profile_steps", (5,)),
    ],
)
def test_a_setting_is_read_as_its_type(text: str, name: str, value: Any) -> None:
    found = getattr(changed(TrainConfig(clip_norm=2.0), [text]), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accumulate=0", "must be a positive number"),
        ("clip_norm=-1", "must be a positive number"),
        ("average_decay=1.0", "less than 1"),
        ("moving_statistics=last", "one of first, mean, sync"),
    ],
)
def test_a_mistake_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        changed(TrainConfig(), [text])
