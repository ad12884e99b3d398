"""The recommender example: held-out choices are told from those of others, by tables of very
different size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from psclust.examples.recommender import Choices

pytestmark = [pytest.mark.tensorflow]


def test_it_tells_choices_from_those_of_others(train_example: Callable[..., Any]) -> None:
    assert train_example("recommender", epochs=4)["auc"] >= 0.64


@pytest.mark.long
@pytest.mark.process
def test_towers_in_step_learn_with_tables_spread_by_bytes(up_example: Callable[..., Any]) -> None:
    ran = up_example("recommender", "--set", "epochs=4")
    assert ran.metrics["auc"] >= 0.6
    # Round robin would have put the users and the groups on one ps.
    assert "of the variables' bytes" not in ran.said


def test_its_tables_are_of_very_different_size_and_no_held_out_choice_is_trained_on() -> None:
    choices = Choices()
    sizes = sorted(choices.sizes.values())
    assert sizes[-1] > 20 * sizes[0]
    pairs = set(zip(choices.users.tolist(), choices.items.tolist(), strict=True))
    assert len(pairs) == len(choices.users)
