"""Options that a way to reach hosts brings to `up`, `plan` and `exec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WayOption:
    """helps: verb -> help text; no other verb has the option. metavar: of its value, which is laid
    over `key` of the cluster file; without one it is a flag that chooses the way. note: where the
    run is then; of a value, why it needs the flag."""

    flag: str
    helps: Mapping[str, str]
    note: str
    metavar: str | None = None
    key: tuple[str, ...] = ()

    @property
    def parameter(self) -> str:
        """Its name among the arguments of a verb."""
        return self.flag.lstrip("-").replace("-", "_")
