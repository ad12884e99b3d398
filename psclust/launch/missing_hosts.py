"""Hosts without which an elastic run starts (jobs.worker.min): those that cannot be reached, or
not used, as it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from psclust.errors import NoRoomError, StartError, UsageError
from psclust.plan.cluster_layout import ClusterLayout, lay_out
from psclust.reach.ways import batch_of, host_maker
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.worker_range import least_workers


def are_given(file: ClusterFile) -> bool:
    """Whether the hosts are those of a batch job, or made for the run."""
    maker, batch = host_maker(file.reach_by), batch_of(file.reach_by)
    return file.found is not None or maker is not None or batch is not None


class MissingHosts:
    """Collects them, with the reasons."""

    def __init__(self, file: ClusterFile) -> None:
        self._file = file
        self._reasons: dict[str, str] = {}

    @property
    def may_be(self) -> bool:
        """Whether hosts may be missing at all."""
        return least_workers(self._file) is not None

    def add(self, reasons: Mapping[str, str]) -> None:
        """Host -> why it is missing, as a sentence that names it. Raises StartError with all of
        them when the others have no room for the run."""
        self._reasons |= reasons
        if not reasons:
            return
        lines = list(dict.fromkeys(self._reasons.values()))
        if not self.may_be:
            raise StartError("\n".join(lines))
        try:
            self.layout()
        except (NoRoomError, UsageError) as error:
            lines.append(f"The run cannot start without: {str(error).rstrip('.')}.")
            raise StartError("\n".join(lines)) from None

    def layout(self) -> ClusterLayout | None:
        """Of the run without them; None if none is missing."""
        lost = [host.name for host in self._file.hosts if host.name in self._reasons]
        return lay_out(self._file, lost) if lost else None

    def tell(self, say: Callable[[str], None]) -> None:
        """One line for each."""
        for reason in self._reasons.values():
            say(f"psclust: the run starts without {reason}")
