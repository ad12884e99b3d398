"""Statistics of the staleness of asynchronous updates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Staleness:
    """Over `updates` updates: the number of other updates applied between reading the variables and
    the update, in total and at most."""

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
