"""What the tests of the examples share: training one in this process, and `psclust up` with its
cluster file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from beds.command import CommandBed
from psclust.spec.load import load

SPECS = Path(__file__).parents[2] / "cluster_specs"


@dataclass(frozen=True)
class Ran:
    """What an `up` left: its output, the metrics it evaluated to, and the model's folder."""

    said: str
    metrics: Mapping[str, float]
    model_dir: Path


@pytest.fixture
def train_example(tmp_path: Path) -> Callable[..., Mapping[str, Any]]:
    """Trains `psclust.examples.NAME` in this process, into `tmp_path/model`, and evaluates it:
    train_example(name, **params)."""

    def train(name: str, **params: Any) -> Mapping[str, Any]:
        program = import_module(f"psclust.examples.{name}").program.with_params(params)
        return program.train_and_evaluate(tmp_path / "model").metrics

    return train


@pytest.fixture
def up_example(bed: CommandBed) -> Callable[..., Ran]:
    """`psclust up` with the cluster file of an example, to the end: up_example("skip-gram",
    *further arguments of the program)."""

    def up(name: str, *arguments: str) -> Ran:
        path = SPECS / f"{name}.yaml"
        file = load(path, default_name=name)
        assert isinstance(file.program, str)
        code, said = bed.run("up", "-f", str(path), file.program, *file.args, *arguments)
        assert code == 0, said
        assert "ended well" in said
        (found,) = bed.state.rglob("evaluation.json")
        return Ran(said, json.loads(found.read_text(encoding="utf-8"))["metrics"], found.parent)

    return up
