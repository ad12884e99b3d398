"""Balanced placement with shards is nowhere less even than any other policy, for the variables of
ten well-known models."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def placement(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "placement", raising=False)
    import placement

    return placement


@pytest.mark.parametrize(
    "ps", [2, 3, 8, *(pytest.param(ps, marks=pytest.mark.long) for ps in (4, 16, 32, 64))]
)
def test_balanced_with_shards_is_never_less_even(placement: ModuleType, ps: int) -> None:
    assert len(placement.MODELS) == 10
    for model in placement.MODELS:
        found = {
            name: placement.imbalance(model, ps, settings)
            for name, settings in placement.policies(8_000_000).items()
        }
        assert found["balanced, shards"] <= 1.01 * min(found.values()), (model, found)


@pytest.mark.parametrize(
    ("model", "millions"),
    [("VGG-16", 138.4), ("ResNet-50", 25.6), ("BERT base", 109.5), ("DenseNet-121", 8.0)],
)
def test_the_models_are_as_large_as_published(
    placement: ModuleType, model: str, millions: float
) -> None:
    assert sum(variable.elements for variable in placement.variables(model)) / 1e6 == pytest.approx(
        millions, abs=0.06
    )
