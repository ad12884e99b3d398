"""Whether a training of psclust's digits has learned them."""

from __future__ import annotations

import re

DIGITS = "psclust.examples.digits:program"


def is_learned(said: str) -> bool:
    """Whether the evaluation that a run has printed reaches 96 % on held-out digits."""
    found = re.search(r"evaluation: accuracy (\S+) ", said)
    return found is not None and float(found[1]) >= 0.96
