"""The user's `placement` key, and the text in which tasks receive it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from psclust.errors import UsageError
from psclust.placement.policies import POLICIES, ROUND_ROBIN

# Words for `max_shard_bytes`.
AUTO: Literal["auto"] = "auto"
NONE: Literal["none"] = "none"
ShardBytes = int | Literal["auto", "none"]


@dataclass(frozen=True)
class PlacementSettings:
    """policy: a key of `POLICIES`. pin: pattern of variable names (`*`, `?`, `[...]`) -> ps index.
    max_shard_bytes: larger variables are partitioned; AUTO: see `cuts`; NONE: none are."""

    policy: str = ROUND_ROBIN
    pin: Mapping[str, int] = field(default_factory=dict)
    max_shard_bytes: ShardBytes = AUTO

    def pinned(self, name: str, whole: str | None = None) -> int | None:
        """The ps of the first pattern that fits the variable `name`; None if none does. A pattern
        for `whole` fits its shards too."""
        names = [name, whole] if whole else [name]
        return next(
            (ps for pattern, ps in self.pin.items() if any(fnmatchcase(n, pattern) for n in names)),
            None,
        )

    def check(self, ps: int) -> None:
        """Raises UsageError for a pin to a ps that does not exist."""
        for pattern, index in impossible_pins(self.pin, ps):
            there = "is 1 ps" if ps == 1 else f"are {ps} ps"
            raise UsageError(
                f"placement: pin: {pattern!r} is pinned to ps:{index}, and there {there}; "
                "write a number from 0 on"
            )

    @classmethod
    def parse(cls, text: str) -> PlacementSettings:
        """Reads what `render` wrote; nothing is the default. The cluster file was checked before.
        Raises UsageError for a word or a key of another psclust."""
        try:
            settings = cls(**json.loads(text)) if text.startswith("{") else cls(text or ROUND_ROBIN)
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"placement {text!r} cannot be read ({error}); write {' or '.join(POLICIES)}, "
                "or a mapping in JSON"
            ) from error
        if settings.policy not in POLICIES:
            raise UsageError(
                f"placement is {settings.policy!r}; it must be one of {', '.join(POLICIES)}"
            )
        return settings

    def render(self) -> str:
        """The text that `parse` reads: a word if only the policy is set, else JSON."""
        if not self.pin and self.max_shard_bytes == AUTO:
            return self.policy
        data: dict[str, Any] = {"policy": self.policy}
        if self.pin:
            data["pin"] = dict(self.pin)
        if self.max_shard_bytes != AUTO:
            data["max_shard_bytes"] = self.max_shard_bytes
        return json.dumps(data, separators=(",", ":"))


def impossible_pins(pins: Mapping[str, int], ps: int) -> Iterator[tuple[str, int]]:
    """The pins, as (pattern, index), to a ps that does not exist if there are `ps` of them."""
    return ((pattern, index) for pattern, index in pins.items() if not 0 <= index < ps)
