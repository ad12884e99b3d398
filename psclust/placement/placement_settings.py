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
        """Reads a word, or JSON such as `{"policy": "balanced", "pin": {"a*": 0},
        "max_shard_bytes": 8000000}`. Raises UsageError."""
        text = text.strip() or ROUND_ROBIN
        try:
            data: Any = json.loads(text) if text.startswith("{") else {"policy": text}
            shard = data.get("max_shard_bytes", AUTO)
            settings = cls(
                str(data.get("policy", ROUND_ROBIN)),
                {str(pattern): int(ps) for pattern, ps in data.get("pin", {}).items()},
                shard if shard in (AUTO, NONE) else int(shard),
            )
        except (ValueError, AttributeError, TypeError) as error:
            raise UsageError(
                f"placement {text!r} cannot be read ({error}); write {' or '.join(POLICIES)}, "
                "or a mapping in JSON"
            ) from error
        if settings.policy not in POLICIES:
            raise UsageError(
                f"placement is {settings.policy!r}; it must be one of {', '.join(POLICIES)}"
            )
        if isinstance(settings.max_shard_bytes, int) and settings.max_shard_bytes < 1:
            raise UsageError(
                f"placement: max_shard_bytes is {settings.max_shard_bytes}; it must be positive"
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
