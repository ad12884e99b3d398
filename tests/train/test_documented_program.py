"""The program that docs/training.md shows whole is trained, exported and served as it says
there."""

from __future__ import annotations

import runpy
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow

DOCS = Path(__file__).parents[2] / "docs" / "training.md"


def _documented(first: str) -> str:
    """The indented block of the documentation that begins with the line `first`, up to the next
    line of text."""
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"    {first}")
    end = next(
        number
        for number in range(begin, len(lines))
        if lines[number] and not lines[number].startswith("    ")
    )
    return textwrap.dedent("\n".join(lines[begin:end]).partition("\n    psclust up")[0])


def test_the_exported_model_takes_what_its_receiver_says(tmp_path: Path) -> None:
    import tensorflow as tf

    source = tmp_path / "house.py"
    source.write_text(_documented("# house.py"), encoding="utf-8")
    program = runpy.run_path(str(source))["program"].with_params({"epochs": 50})
    assert program.train(tmp_path / "model") == 1000
    exported = program.export_saved_model(model_dir=tmp_path / "model")
    served = tf.saved_model.load(str(exported)).signatures["serving_default"]
    price = served(square_feet=tf.constant([[5.0, 2.0]]))["price"].numpy()
    assert price == pytest.approx([(2.0 * 5.0 - 2.0) * 0.0929 + 0.5], abs=0.01)
