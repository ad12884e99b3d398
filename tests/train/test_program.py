"""Programs: what user functions are called with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import psclust
from psclust.errors import UsageError
from psclust.train.definition import call_with

SHARD = psclust.Shard(1, 4)


def _program(**changes: Any) -> psclust.Program:
    functions = {"model_fn": None, "input_fn": None, "optimizer_fn": None}
    return psclust.Program(**(functions | {"params": {"rate": 0.5}} | changes))


def test_an_input_function_takes_any_subset_of_mode_params_and_shard() -> None:
    assert _program(input_fn=lambda: "all").dataset("train", SHARD) == "all"
    assert _program(input_fn=lambda shard: shard).dataset("train", SHARD) == SHARD
    assert _program(input_fn=lambda params, mode: (mode, params)).dataset("train", SHARD) == (
        "train",
        {"rate": 0.5},
    )
    assert _program(input_fn=lambda **kwargs: sorted(kwargs)).dataset("train", SHARD) == [
        "mode",
        "params",
        "shard",
    ]


def _seen(function: Callable[..., Any], labels: Any = "y", mode: str = "train") -> Any:
    """What a model function of that signature sees of its arguments."""

    @functools.wraps(function)
    def model_fn(*values: Any, **named: Any) -> psclust.EstimatorSpec:
        return psclust.EstimatorSpec(mode, loss=function(*values, **named))

    return _program(model_fn=model_fn).spec("x", labels, mode).loss


def test_a_model_function_takes_labels_mode_and_params_where_it_names_them() -> None:
    assert _seen(lambda features: features) == "x"
    assert _seen(lambda features, labels: labels) == "y"
    assert _seen(lambda x, mode, y: (x, mode, y)) == ("x", "train", "y")
    assert _seen(lambda *both, **rest: (both, sorted(rest))) == (
        ("x", "y"),
        ["config", "mode", "params"],
    )
    assert _seen(lambda features, labels, mode, params: (labels, mode, params), None, "eval") == (
        None,
        "eval",
        {"rate": 0.5},
    )


def test_a_parameter_that_is_neither_offered_nor_has_a_default_is_the_users_type_error() -> None:
    with pytest.raises(TypeError, match="config"):
        call_with(lambda features, config: None, "x", mode="train")


def test_held_out_data_comes_from_eval_input_fn_where_there_is_one() -> None:
    program = _program(input_fn=lambda shard: "training", eval_input_fn=lambda params: "held out")
    assert program.dataset(psclust.ModeKeys.EVAL, SHARD) == "held out"
    assert program.dataset(psclust.ModeKeys.TRAIN, SHARD) == "training"


def test_a_program_can_be_evaluated_where_its_input_knows_the_mode() -> None:
    assert _program(input_fn=lambda mode: None).has_evaluation
    assert _program(input_fn=lambda shard: None, eval_input_fn=lambda: None).has_evaluation
    assert not _program(input_fn=lambda shard: None).has_evaluation


def test_changed_params_and_functions_that_change_theirs_leave_the_program_alone() -> None:
    program = _program(input_fn=lambda params: params.clear())
    assert program.with_params({"rate": 1.0}).params == {"rate": 1.0}
    program.dataset("train", SHARD)
    assert program.params == {"rate": 0.5}


def test_an_optimizer_that_cannot_compute_gradients_is_refused() -> None:
    with pytest.raises(
        UsageError,
        match=r"optimizer_fn returned a builtins\.str; return one of tf\.compat\.v1\.train",
    ):
        _program(optimizer_fn=lambda: "adam").optimizer(None)


def test_what_is_no_function_is_refused_at_once() -> None:
    with pytest.raises(
        UsageError,
        match=r"optimizer_fn=SimpleNamespace\(\.\.\.\) is no function; give one that returns it",
    ):
        _program(optimizer_fn=SimpleNamespace(compute_gradients=None))
