"""The speed of a link, by which seconds are counted."""

from __future__ import annotations

from dataclasses import dataclass

# What TCP moves in a second over a link of 1 Gbit/s, as measured.
_GBIT_BYTES = 119.6e6


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """text: for people. bytes_s: what TCP moves in a second."""

    text: str
    bytes_s: float

    @classmethod
    def nominal(cls, gbit: float) -> LinkSpeed:
        """By what is written on the link, in Gbit/s."""
        return cls(f"{gbit:g} Gbit/s", gbit * _GBIT_BYTES)

    @classmethod
    def measured(cls, gbit: float) -> LinkSpeed:
        """By what TCP moved, in Gbit/s."""
        return cls(f"{float(f'{gbit:.2g}'):g} Gbit/s", gbit * 1e9 / 8)
