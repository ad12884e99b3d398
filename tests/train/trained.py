"""What a training has left, and whether two have left the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SLOTS = ("/Momentum", "/Adam", "/Adam_1", "/Adagrad")


@dataclass
class Trained:
    """What a training left: the values of all variables, and its folder."""

    values: Mapping[str, Any]
    model_dir: Path

    @property
    def step(self) -> int:
        return int(self.values["global_step"])

    @property
    def positions(self) -> list[int]:
        """How many batches each replica has used up."""
        return self.values["psclust/positions"].tolist()

    @property
    def tally(self) -> list[float]:
        """What the gradients of each replica have added to either variable of the toy `tally`."""
        dense, sparse = self.values["dense"].tolist(), self.values["sparse"][:, 0].tolist()
        np.testing.assert_allclose(dense, sparse, rtol=1e-5)
        return dense


def near(one: Trained, other: Trained, *names: str, rtol: float = 1e-4, atol: float = 1e-6) -> None:
    """The same values of some variables."""
    for name in names:
        np.testing.assert_allclose(
            other.values[name], one.values[name], rtol=rtol, atol=atol, err_msg=name
        )


def read_checkpoint(model_dir: Path) -> Trained:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(model_dir))
    return Trained(
        {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}, model_dir
    )


def same(one: Trained, other: Trained, *, rtol: float = 1e-4) -> None:
    """The same variables with the same values, to `rtol` of the size of what each was computed
    from.

    `rtol` is what rounding can do on any CPU, whose vectors decide in which order a sum is made:
    float32 rounds by u = 2**-24, so a sum of n terms is off by at most n * u of their sizes, and T
    steps that all err the same way by T * n * u. The longest training here has T = 50 and batches
    of n = 12: 3.6e-5, rounded up to 1e-4. (With oneDNN on and off, with SSE4.1 and with AVX2 only,
    and in one thread, no difference was more than a twentieth of what is allowed.) A replica that
    normalizes by moments of its own, or an uneven batch that is not weighted by its examples, makes
    a difference above 1e-3.
    """
    names = {name for name in one.values if not name.startswith("psclust/")}
    assert names == {name for name in other.values if not name.startswith("psclust/")}
    for name in names:
        np.testing.assert_allclose(
            other.values[name],
            one.values[name],
            rtol=0,
            atol=rtol * _size(one, name) + 1e-7,
            err_msg=name,
        )


def _size(trained: Trained, name: str) -> float:
    """The largest value of a variable; more where it is what is left of larger ones: a mean is a
    sum of values as large as their deviation, and an optimizer's slot one of gradients that have
    been large and of either sign."""
    largest = float(np.abs(trained.values[name]).max())
    if name.endswith("/moving_mean"):
        variance = trained.values[name.replace("/moving_mean", "/moving_variance")]
        return max(largest, float(np.sqrt(variance.max())))
    return largest * 10 if name.endswith(SLOTS) else largest
