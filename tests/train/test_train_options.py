"""The command line of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from psclust.errors import UsageError
from psclust.train.config import TrainConfig, changed
from psclust.train.program_options import Options, parse_changes, parse_options

PARAMS = {"rate": 0.1, "epochs": 3, "name": "a", "augment": False, "limit": None, "layers": [1, 2]}


def test_a_program_alone_trains_until_its_data_ends() -> None:
    assert parse_options(["m:p"]) == Options("m:p")


def test_options_come_after_the_program() -> None:
    words = "m:p --set a=1 --set b=2 --max-steps 10 --model-dir /tmp/x --save-seconds 5"
    assert parse_options(words.split()) == Options("m:p", ("a=1", "b=2"), Path("/tmp/x"), 10, 5.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "MODULE:PROGRAM"),
        (["m:p", "--epochs", "3"], "unrecognized arguments: --epochs 3"),
        (["m:p", "--max-steps", "0"], "0 is not a positive number"),
        (["m:p", "--max-steps", "many"], "invalid"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_options(arguments)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("rate=0.5", {"rate": 0.5}),
        ("rate=1", {"rate": 1.0}),
        ("epochs=12", {"epochs": 12}),
        ("name=12", {"name": "12"}),
        ("name=a=b", {"name": "a=b"}),
        ("augment=true", {"augment": True}),
        ("limit=7", {"limit": 7}),
        ("limit=word", {"limit": "word"}),
        ("layers=[3]", {"layers": [3]}),
    ],
)
def test_a_change_has_the_type_of_the_param_it_replaces(change: str, value: dict[str, Any]) -> None:
    assert parse_changes([change], PARAMS) == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rate", "write it as key=value"),
        ("epoch=3", "no key 'epoch'; did you mean 'epochs'?"),
        ("zzz=3", "known are: rate, epochs"),
        ("epochs=many", "'many' is not of type int"),
        ("epochs=1.5", "'1.5' is not of type int"),
        ("augment=yes", "is not of type bool"),
        ("rate=true", "is not of type float"),
    ],
)
def test_a_change_that_does_not_fit_is_a_usage_error(change: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_changes([change], PARAMS)
    assert message in str(error.value)


# ---- the settings of a training


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
