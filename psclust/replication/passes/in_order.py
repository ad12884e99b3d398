"""Makes the passes over a graph, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.passes.crossings import use_own_wire
from psclust.replication.passes.local_copies import LocalCopy, can_copy_all, copy_locally
from psclust.replication.passes.narrow import narrow
from psclust.replication.passes.pulls import pull_once


class Passes:
    """The passes over the current graph. When its towers are built: `copies`, unless it has none,
    then `pulls`. When its step is built: `finish`."""

    def __init__(self, towers: Sequence[str], wire_dtype: str) -> None:
        """towers: their devices."""
        self._towers = towers
        self._wire_dtype = wire_dtype
        self._made: list[str] = []

    def can_copy_all(self, gradients: GradientsAndVariables) -> bool:
        """Whether `copies` would give the towers a copy of every variable in `gradients`."""
        return can_copy_all(gradients, self._towers)

    def copies(
        self,
        gradients: Sequence[GradientsAndVariables],
        *,
        together: bool,
        of_session: bool = True,
    ) -> Sequence[LocalCopy]:
        """See `copy_locally`. gradients: of the towers."""
        self._begin("copies", after=[[]])
        return copy_locally(
            gradients, self._towers, self._wire_dtype, together=together, of_session=of_session
        )

    def pulls(self) -> None:
        self._begin("pulls", after=[["copies"], []])
        # To find the distinct ids makes a step on one machine 5 to 15 % longer. It pays where bytes
        # count and ids repeat.
        pull_once(rows_once=self._wire_dtype != "float32")

    def finish(self) -> None:
        self._begin("finish", after=[["copies", "pulls"], ["pulls"]])
        narrow(self._wire_dtype)
        use_own_wire()

    def _begin(self, name: str, after: Sequence[Sequence[str]]) -> None:
        if self._made not in after:
            raise AssertionError(f"the pass {name} comes after {self._made}")
        self._made.append(name)
