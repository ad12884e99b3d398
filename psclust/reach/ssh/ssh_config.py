"""The ssh configuration of this machine, as OpenSSH reads it: `~/.ssh/config`, then
/etc/ssh/ssh_config, with `Include` (which paramiko does not follow). A host's entry in the cluster
file wins over both."""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paramiko import SSHConfig
from paramiko.ssh_exception import ConfigParseError, CouldNotCanonicalize

from psclust.errors import StartError
from psclust.spec.cluster import Host

_SYSTEM = Path("/etc/ssh")
_INCLUDE = re.compile(r"\s*include(?:\s*=\s*|\s+)(.+)", re.IGNORECASE)
_CONTEXT = re.compile(r"\s*(host|match)\b", re.IGNORECASE)
_DEEPEST = 16  # OpenSSH's own limit on files that include files


@dataclass(frozen=True)
class HostSettings:
    """The settings of one host. `config`: for fabric, which looks up the rest. `command`: to log in
    by hand."""

    name: str
    address: str
    port: int
    user: str | None
    config: SSHConfig
    jumps: tuple[str, ...]
    proxy_command: str | None
    key_alias: str | None
    known_hosts: tuple[Path, ...]
    connect_timeout_s: float | None
    command: str


class SshConfiguration:
    """`home`: the folder that holds `.ssh`. Raises StartError for a configuration that cannot be
    parsed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        own = "".join(_expanded(home / ".ssh" / "config", home / ".ssh", home, 0))
        system = "".join(_expanded(_SYSTEM / "ssh_config", _SYSTEM, home, 0))
        self._text = f"{own}\nHost *\n{system}"

    def of(self, host: Host) -> HostSettings:
        """User and port of `host` win."""
        given = "".join(
            f"  {key} {value}\n"
            for key, value in (("User", host.user), ("Port", host.port))
            if value is not None
        )
        try:
            config = SSHConfig.from_text(f"Host {host.name}\n{given}Host *\n{self._text}")
            found = config.lookup(host.name)
            return HostSettings(
                name=host.name,
                address=found["hostname"],
                port=int(found.get("port", 22)),
                user=found.get("user"),
                config=config,
                jumps=_jumps(found.get("proxyjump"), {host.name, found["hostname"]}),
                proxy_command=found.get("proxycommand"),
                key_alias=found.get("hostkeyalias"),
                known_hosts=tuple(self._known_hosts(found)),
                command=" ".join(_by_hand(host)),
                connect_timeout_s=float(found["connecttimeout"])
                if found.get("connecttimeout", "none") != "none"
                else None,
            )
        except (ConfigParseError, CouldNotCanonicalize, ValueError) as error:
            where = self._home / ".ssh" / "config"
            raise StartError(
                f"{host.name}: {where}: not understood ({error}); see `ssh -G {host.name}`."
            ) from None

    def _known_hosts(self, found: dict[str, str]) -> Iterator[Path]:
        own = found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
        system = found.get(
            "globalknownhostsfile", f"{_SYSTEM}/ssh_known_hosts {_SYSTEM}/ssh_known_hosts2"
        )
        for word in shlex.split(f"{own} {system}"):
            if word.lower() != "none":
                yield _path(word.replace("%d", str(self._home)), self._home)


def _by_hand(host: Host) -> Iterator[str]:
    yield "ssh"
    if host.port is not None:
        yield f"-p {host.port}"
    yield f"{host.user}@{host.name}" if host.user else host.name


def _jumps(value: str | None, own: set[str]) -> tuple[str, ...]:
    """From `a,user@b:2222`, in order. A jump host that a rule for all hosts applies to does not
    jump through itself."""
    hops = tuple(
        hop.strip().removeprefix("ssh://") for hop in (value or "").split(",") if hop.strip()
    )
    last = hops[-1].rpartition("@")[2].partition(":")[0] if hops else ""
    return () if last in own or [hop.lower() for hop in hops] == ["none"] else hops


def _expanded(path: Path, base: Path, home: Path, depth: int) -> Iterator[str]:
    """The lines of a configuration, with included files in place; missing files are skipped."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    context = "Host *"
    for line in lines:
        included = _INCLUDE.fullmatch(line)
        if included is None:
            context = line if _CONTEXT.match(line) else context
            yield f"{line}\n"
        elif depth < _DEEPEST:
            for word in shlex.split(included[1], comments=True):
                for name in sorted(glob.glob(str(base / _path(word, home)))):
                    yield from _expanded(Path(name), base, home, depth + 1)
            yield f"{context}\n"


def _path(word: str, home: Path) -> Path:
    return home / word[2:] if word.startswith("~/") else Path(word)
