"""The errors that psclust raises for users. A message states where, what was found and what to do;
`cli.main` prints it, without a traceback, and exits with `exit_code`."""

from __future__ import annotations

from collections.abc import Iterable


class PsclustError(Exception):
    """Base of all; exit code 1: the run failed."""

    exit_code = 1


class UsageError(PsclustError):
    """The request is wrong: a flag, a name, an argument."""

    exit_code = 2


class ClusterFileError(UsageError):
    """Every mistake found in one cluster file, host list or set of flags, one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class NotFiniteError(PsclustError):
    """A loss, a gradient or a variable is no longer finite, so training cannot go on."""


class ModelError(PsclustError):
    """A user's function fails on its data."""


class NoRoomError(UsageError):
    """A host of a live run is lost, and no other has a slot for its tasks."""


class StartError(PsclustError):
    """The cluster could not be started: a busy port, a missing library, a server that never
    answered."""

    exit_code = 3


class DamagedFileError(StartError):
    """A file of a run is cut off, or not what psclust wrote. remedy: a sentence."""

    def __init__(self, path: object, why: object, remedy: str) -> None:
        super().__init__(f"{path} is damaged: {str(why)[:300]}. {remedy}")


class HostError(StartError):
    """One host cannot be reached, or cannot do its part: `h1: ...`."""


class PortBusyError(StartError):
    """A port that the cluster file fixes is in use."""

    def __init__(self, task: str, address: str, holder: str | None) -> None:
        by = f" by {holder}" if holder else ""
        super().__init__(
            f"{task}: {address} is already in use{by}. Stop that process, choose another port, "
            "or let psclust choose: `ports: auto`."
        )


class RunEndedError(PsclustError):
    """A run is over, so its supervisor carries out no request any more."""


class MissingPackageError(UsageError):
    """A package that only some requests need is not installed beside psclust."""

    def __init__(self, wanted_by: str, package: str) -> None:
        super().__init__(
            f"{wanted_by} needs {package}, which is not installed beside psclust. "
            f"Install it: pip install {package}"
        )


class NoRunError(UsageError):
    """A command names a cluster that has no (live) run."""
