"""Data of the examples, all real and none downloaded: data sets that scikit-learn ships, and a text
that Python ships."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np

from psclust.errors import UsageError

# The 1,797 digits are shuffled with a fixed seed; those after this many are held out.
DIGITS_TRAINED_ON = 1437


def installed(module: str, extra: str = "examples") -> Any:
    """The module. Raises UsageError, with the extra of psclust that brings it, if it is not
    there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0].replace("sklearn", "scikit-learn")
        raise UsageError(f"{package} is not installed: pip install psclust[{extra}]") from error


def digits(*, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """(images [n, 8, 8] uint8 in 0..16, labels [n] int64): 1,437 handwritten digits to train on, or
    the other 360. Raises UsageError."""
    found = installed("sklearn.datasets").load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    part = order[DIGITS_TRAINED_ON:] if held_out else order[:DIGITS_TRAINED_ON]
    return found.images[part].astype(np.uint8), found.target[part].astype(np.int64)


def paragraphs() -> list[tuple[int, list[str]]]:
    """(number of the topic, words in lower case) of every distinct paragraph of the Python language
    reference in `help()`."""
    from pydoc_data.topics import topics  # half a megabyte that other examples do not need

    found: dict[str, tuple[int, list[str]]] = {}
    for number, topic in enumerate(sorted(topics)):
        for paragraph in re.split(r"\n\s*\n", topics[topic]):
            text = " ".join(paragraph.lower().split())
            found.setdefault(text, (number, re.findall(r"[a-z]+(?:_[a-z]+)*", text)))
    return [paragraph for paragraph in found.values() if paragraph[1]]
