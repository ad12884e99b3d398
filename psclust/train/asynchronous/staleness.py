"""How stale the updates of asynchronous replicas were, in numbers and words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Staleness:
    """Of `updates` updates: how many others had been applied between the reading of the variables and the update, in sum and at most."""

    updates: int = 0
    total: int = 0
    greatest: int = 0

    def add(self, staleness: int) -> None:
        self.updates += 1
        self.total += staleness
        self.greatest = max(self.greatest, staleness)

    @property
    def mean(self) -> float:
        return self.total / self.updates if self.updates else 0.0

    def __str__(self) -> str:
        return f"staleness {self.mean:.1f} (max {self.greatest})"
