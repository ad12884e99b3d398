"""What the launcher needs of a way to reach hosts, whatever the way: SSH, srun, or an exec in a
pod. `ways.py` holds the table of ways.

A way starts a command on a host and carries its standard input, output and error. Everything else
(looking at a host, shipping folders, starting agents) is done by a Python that is started in this
way and reads its questions on that input: see `reach/python`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.reach.batch_jobs import BatchSystem
    from psclust.reach.carried_tunnel import CarriedTunnel
    from psclust.reach.host_command import HostCommand
    from psclust.reach.host_maker import HostMaker
    from psclust.spec.cluster_file import ClusterFile
    from psclust.spec.found_hosts import FoundHosts

Progress = Callable[
    [int, int, str], None
]  # hosts done, hosts in all, the name of the one just done


class Connections(Protocol):
    """Connections to the hosts of a cluster. Any thread may use them. Methods raise HostError,
    which names the host."""

    @property
    def way(self) -> str:
        """For messages, such as `SSH`."""

    @property
    def hosts(self) -> Sequence[Host]:
        """All hosts asked for, connected or not."""

    @property
    def names(self) -> Sequence[str]:
        """The connected hosts, in the order in which they were asked for."""

    @property
    def failures(self) -> Mapping[str, str]:
        """Host -> why it is not connected."""

    def start(
        self, host: str, command: str, purpose: str, *, outlived: bool = False
    ) -> HostCommand:
        """Start a line of the user's shell on `host`. `purpose`: see HostCommand. outlived: what it
        leaves behind, an agent, is to go on; a batch system ends that of any other command."""

    def address_of(self, host: str) -> str | None:
        """The IPv4 address at which `host` was reached; None where there is none."""


@dataclass(frozen=True, slots=True)
class WayOption:
    """An option that a way brings to `up`, `plan` and `exec`. helps: verb -> help text; no other
    verb has the option. metavar: of its value, which is laid over `key` of the cluster file;
    without one it is a flag that chooses the way. note: where the run is then; of a value, why it
    needs the flag."""

    flag: str
    helps: Mapping[str, str]
    note: str
    metavar: str | None = None
    key: tuple[str, ...] = ()

    @property
    def parameter(self) -> str:
        """Its name among the arguments of a verb."""
        return self.flag.lstrip("-").replace("-", "_")


class Way(Protocol):
    """A module that reaches hosts in one way.

    OPTIONS: what it adds to the command line. MAY_BE_HERE: whether a host may be this machine
    itself, where tasks run without an agent. STANDING_AGENTS: whether an agent may be a child of
    the host's standing agent. CONNECTION_VARIABLE: in which a command finds its connection: the
    addresses and ports of both ends, as sshd writes them."""

    OPTIONS: Sequence[WayOption]
    MAY_BE_HERE: bool
    STANDING_AGENTS: bool
    CONNECTION_VARIABLE: str | None

    def find_hosts(self, environ: Mapping[str, str], *, asked: bool) -> FoundHosts | None:
        """The hosts that the surroundings of this process give it, if they do. asked: it is a
        mistake if they do not. Raises UsageError."""

    def batch_system(self) -> BatchSystem | None:
        """The batch system that gives jobs their hosts; None if there is none."""

    def host_maker(self) -> HostMaker | None:
        """The maker of a run's hosts, which also removes them at its end, so that nothing of
        the run is left there; None for hosts that exist by themselves."""

    def connect(
        self, file: ClusterFile, hosts: Sequence[Host], *, partial: bool, progress: Progress | None
    ) -> AbstractContextManager[Connections]:
        """Entering the context connects to all `hosts`; it raises StartError with a line for each
        host that cannot be reached, or, with `partial`, puts these lines into `failures`.
        `progress` is called on the entering thread."""

    def tunnel_settings(self, file: ClusterFile) -> Mapping[str, Any] | None:
        """Input of `open_tunnel` besides the hosts' names, as JSON; None if their
        agents are reached directly."""

    def open_tunnel(
        self, host: Host, target: tuple[str, int], settings: Mapping[str, Any]
    ) -> CarriedTunnel:
        """To `target` (host, port), as seen from `host`."""
