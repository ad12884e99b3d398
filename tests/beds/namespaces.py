"""A network of hosts in namespaces: a bridge on this machine, and an interface with an address for
each host. Needs root."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress

from beds.sshd import find_program

_CUT = """
table inet psclust_cut {
    chain in { type filter hook input priority 0; policy drop; iifname "lo" accept; }
    chain out { type filter hook output priority 0; policy drop; oifname "lo" accept; }
}
"""


class Network(AbstractContextManager["Network"]):
    """`names` get addresses in a /24 of 10.77.0.0/16 that no other such network uses; this machine
    gets the last one."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._number = -1

    def __enter__(self) -> Network:
        self._number = _free_number()
        with ExitStack() as undo:
            undo.callback(self._remove)
            for name in self._names:
                self._add(name)
            undo.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        self._remove()

    @property
    def bridge(self) -> str:
        return f"psclust{self._number}"

    def address(self, name: str) -> str:
        return f"10.77.{self._number}.{self._names.index(name) + 1}"

    @property
    def gateway(self) -> str:
        """The address of this machine."""
        return f"10.77.{self._number}.254"

    def namespace(self, name: str) -> str:
        return f"{self.bridge}-{name}"

    def command(self, name: str) -> list[str]:
        """The prefix of a command line that runs it on a host's network."""
        return [find_program("ip"), "netns", "exec", self.namespace(name)]

    def cut(self, name: str) -> None:
        """Drop all packets in and out."""
        subprocess.run(
            [*self.command(name), find_program("nft"), "-f", "-"], input=_CUT.encode(), check=True
        )

    def heal(self, name: str) -> None:
        subprocess.run(
            [*self.command(name), find_program("nft"), "delete", "table", "inet", "psclust_cut"],
            check=True,
        )

    def _add(self, name: str) -> None:
        space, outer = self.namespace(name), f"{self.bridge}-{self._names.index(name) + 1}"
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", outer, "master", self.bridge, "up")
        _ip("-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _ip("-n", space, "link", "set", interface, "up")

    def _remove(self) -> None:
        for index, name in enumerate(self._names):
            # Deleted explicitly: the kernel ends a namespace some time later.
            for command in (
                ("link", "delete", f"{self.bridge}-{index + 1}"),
                ("netns", "delete", self.namespace(name)),
            ):
                with suppress(subprocess.CalledProcessError):
                    _ip(*command)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self.bridge)


def separate() -> list[str]:
    """The beginning of a command that has processes, mounts and a host name of its own."""
    spaces = ("--pid", "--mount", "--uts", "--mount-proc")
    return [find_program("unshare"), *spaces, "--fork", "--kill-child"]


def _free_number() -> int:
    """Create a bridge with a new name, and give it its address; returns the number in its name."""
    for number in range(256):
        with suppress(subprocess.CalledProcessError):
            _ip("link", "add", f"psclust{number}", "type", "bridge")
            _ip("address", "add", f"10.77.{number}.254/24", "dev", f"psclust{number}")
            _ip("link", "set", f"psclust{number}", "up")
            return number
    raise OSError(
        "256 networks of test hosts exist already; see `ip link`, "
        "and delete the bridges named psclust<number>"
    )


def _ip(*arguments: str) -> None:
    subprocess.run([find_program("ip"), *arguments], check=True, capture_output=True)
