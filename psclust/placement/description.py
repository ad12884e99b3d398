"""A program's description of its variables for `psclust plan`: one marked line of its output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from psclust.placement.variable import Variable

# The variable that says for how many ps a program is described.
DESCRIBED_PS = "PSCLUST_DESCRIBED_PS"
_MARK = "psclust-variables: "


@dataclass(frozen=True, slots=True)
class Description:
    """variables: unpartitioned, in the order of creation. wire_dtype: the dtype in which float32
    values travel. one_way: the setting that keeps variables from coming back while gradients leave;
    None if there is none. in_step: the same between-graph synchronous. whole: why no variable is
    partitioned, though `auto` would; None if nothing keeps it from that."""

    variables: tuple[Variable, ...]
    wire_dtype: str = "float32"
    one_way: str | None = None
    in_step: str | None = None
    whole: str | None = None

    def render(self) -> str:
        return _MARK + json.dumps(asdict(self))

    @classmethod
    def find(cls, output: str) -> Description | None:
        """The description in a program's output; None if there is none."""
        line = next((line for line in output.splitlines() if line.startswith(_MARK)), None)
        if line is None:
            return None
        data = json.loads(line.removeprefix(_MARK))
        values = {each.name: data[each.name] for each in fields(cls)}
        return cls(**{**values, "variables": tuple(map(Variable.from_dict, data["variables"]))})
