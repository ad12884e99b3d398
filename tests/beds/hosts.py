"""Hosts for tests, on one machine, each with a real sshd: `with host_bed(folder, 4) as bed: ...`.

As root, each host is a set of namespaces with its own address, name, process ids, `/tmp`, `/run`
and home, so that it can be cut off and switched off like a machine. Without root, each is an sshd
with its own address in 127.0.0.0/8 and its own home, and shares all the rest.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from beds.free_ports import free_ports
from beds.namespaces import Network, separate
from beds.processes import running
from beds.sshd import find_program, make_keys, sshd_config, write_client_config
from psclust.testing.wait import wait_until

# Run by the first process in a host's namespaces. $1: name, $2: the bed's folder, $3: sshd, $4: its
# configuration, others: paths to keep.
_BOOT = """
set -e
name=$1 bed=$2 sshd=$3 config=$4; shift 4
hostname "$name"
mount --make-rprivate /
mount --bind "$bed/passwd" /etc/passwd
mount --bind "$bed/hosts" /etc/hosts
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd "$bed/$name/tmp"
chmod 1777 "$bed/$name/tmp"
# Keep the paths below /tmp that the host needs (the bed itself, an environment).
for kept in "$bed" "$@"; do
    case $kept in /tmp/*) mkdir -p "$bed/$name/tmp/${kept#/tmp/}";; esac
done
mkdir -p /run/keep
for kept in "$bed" "$@"; do
    case $kept in /tmp/*) mkdir -p "/run/keep$kept"; mount --rbind "$kept" "/run/keep$kept";; esac
done
mount --bind "$bed/$name/tmp" /tmp
for kept in "$bed" "$@"; do
    case $kept in /tmp/*) mount --rbind "/run/keep$kept" "$kept";; esac
done
mkdir -p /run/home
mount --bind "$bed/$name/home" /run/home
cd /
sleep infinity &
"$sshd" -D -e -f "$config" &
# As the first process of its namespace, the shell also reaps all orphans.
wait
"""


@dataclass
class BedHost:
    """One host. address: IPv4. home: its user's home as seen from outside. process: the first of
    its processes."""

    name: str
    address: str
    port: int
    home: Path
    process: subprocess.Popen[bytes]
    log: Path
    network: Network | None = None

    @property
    def isolated(self) -> bool:
        """Whether it has namespaces: can be cut off, and sees only its own processes."""
        return self.network is not None

    @property
    def own_home(self) -> str:
        """Its user's home as seen on the host."""
        return "/run/home" if self.isolated else str(self.home)

    def processes(self) -> list[psutil.Process]:
        """All processes on the host, sshd included."""
        if self.network is None:
            sshd = running(self.process)
            below = sshd.children(recursive=True) if sshd else []
            return list({*self._at_home(), *([sshd] if sshd else []), *below})
        first = self._first()
        if first is None:
            return []
        space = os.readlink(f"/proc/{first}/ns/pid")
        return [process for process in psutil.process_iter() if _namespace(process.pid) == space]

    def _at_home(self) -> list[psutil.Process]:
        """Processes started by a log-in to the host, recognised by HOME: no other host has the same
        home."""
        home = f"HOME={self.home}".encode()
        return [process for process in psutil.process_iter() if home in _environment(process.pid)]

    def _first(self) -> int | None:
        """Process 1 of the host."""
        process = running(self.process)
        return next((child.pid for child in process.children()), None) if process else None

    def programs(self) -> list[str]:
        """The command lines of the processes on the host, without those that always run."""
        found = []
        for process in self._programs():
            with suppress(psutil.Error):
                found.append(" ".join(process.cmdline()))
        return found

    def end_programs(self) -> None:
        """Kill the processes on the host, except those that always run."""
        for process in self._programs():
            with suppress(psutil.Error):
                process.kill()

    def _programs(self) -> Iterator[psutil.Process]:
        for process in self.processes():
            with suppress(psutil.Error):
                if (
                    process.name() not in ("sshd", "sleep", "sh")
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    yield process

    def cut(self) -> None:
        """Drop all packets between the host and others. Without isolation, stop all of its
        processes, which looks the same from outside."""
        if self.network is not None:
            self.network.cut(self.name)
        else:
            self._signal_all(signal.SIGSTOP)

    def heal(self) -> None:
        if self.network is not None:
            self.network.heal(self.name)
        else:
            self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def command(self, *arguments: str) -> list[str]:
        """A command line that runs `arguments` on the host without sshd."""
        if self.network is None:
            return list(arguments)
        spaces = ("--mount", "--uts", "--net", "--pid")
        return [find_program("nsenter"), f"--target={self._first()}", *spaces, "--", *arguments]

    def run(self, *arguments: str) -> str:
        """Run `arguments` on the host; returns the output. Raises CalledProcessError."""
        return subprocess.run(
            self.command(*arguments), check=True, capture_output=True, text=True
        ).stdout

    def switch_off(self) -> None:
        """Kill everything on the host at once."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class HostBed:
    """home: the HOME with which a client (`ssh`, fabric) reaches the hosts by name. shared: a
    folder with the same path on all hosts and this machine, like a network file system."""

    hosts: Sequence[BedHost]
    home: Path
    shared: Path

    def __getitem__(self, index: int) -> BedHost:
        return self.hosts[index]

    @property
    def names(self) -> str:
        """As `psclust up -H` takes them."""
        return ",".join(host.name for host in self.hosts)


@contextmanager
def host_bed(
    folder: Path,
    names: int | Sequence[str],
    *,
    isolated: bool | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[HostBed]:
    """Hosts that accept log-ins with the key in the bed's home. names: theirs, or how many, which
    are then h1, h2, ...

    isolated: with namespaces, which needs root; None: if this is root. environ: more variables of
    whoever logs in. Raises FileNotFoundError if a system program is missing, and TimeoutError if a
    host does not start."""
    isolated = os.geteuid() == 0 if isolated is None else isolated
    folder.mkdir(parents=True, exist_ok=True)
    keys = make_keys(folder)
    names = (
        [f"h{number}" for number in range(1, names + 1)] if isinstance(names, int) else list(names)
    )
    with ExitStack() as stack:
        network = stack.enter_context(Network(names)) if isolated else None
        port = 22 if network else free_ports(1)
        places = {
            name: (network.address(name) if network else f"127.0.0.{index + 2}", port)
            for index, name in enumerate(names)
        }
        write_client_config(folder / "client", keys, places)
        _write_system_files(folder, {name: address for name, (address, _) in places.items()})
        hosts = []
        for name, (address, _) in places.items():
            # With namespaces, /etc/passwd names the home.
            home = {} if network else {"HOME": str(folder / name / "home")}
            config = sshd_config(folder, keys, address, port, {**home, **(environ or {})})
            host = _start(folder, name, address, port, network, config)
            stack.callback(host.switch_off)
            hosts.append(host)
        for host in hosts:
            wait_until(
                partial(_answers, host), what=f"{host.name} ({host.address}), see {host.log},"
            )
        (folder / "shared").mkdir()
        yield HostBed(hosts, folder / "client", folder / "shared")


def _start(
    folder: Path, name: str, address: str, port: int, network: Network | None, config: Path
) -> BedHost:
    (folder / name / "home").mkdir(parents=True)
    log, sshd = folder / name / "sshd.log", find_program("sshd")
    if network:
        # The host's own /tmp would hide an interpreter or a checkout below /tmp.
        kept = {
            str(Path(path).resolve())
            for path in (sys.prefix, sys.base_prefix, Path(__file__).parents[2])
        }
        boot = ["sh", "-c", _BOOT, "boot", name, str(folder), sshd, str(config), *sorted(kept)]
        command = [*network.command(name), *separate(), *boot]
    else:
        if os.geteuid() == 0:
            # As the service does; sshd does not start without it.
            Path("/run/sshd").mkdir(exist_ok=True)
        command = [sshd, "-D", "-e", "-f", str(config)]
    with log.open("wb") as file:
        process: Any = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    return BedHost(name, address, port, folder / name / "home", process, log, network)


def _write_system_files(folder: Path, addresses: dict[str, str]) -> None:
    """Write /etc/passwd for namespaces, in which root's home is the host's own, and /etc/hosts."""
    lines = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
    users = [line.split(":") for line in lines]
    own = [
        ":".join([*user[:5], "/run/home", *user[6:]]) if user[2:3] == ["0"] else ":".join(user)
        for user in users
    ]
    (folder / "passwd").write_text("\n".join(own) + "\n", encoding="utf-8")
    names = "".join(f"{address} {name}\n" for name, address in addresses.items())
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}", encoding="utf-8")


def _environment(pid: int) -> Sequence[bytes]:
    """The environment a process was started with; empty if we may not read it."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def _answers(host: BedHost) -> bool:
    if host.process.poll() is not None:
        raise RuntimeError(f"{host.name} ended: {host.log.read_text(errors='replace')}")
    try:
        with socket.create_connection((host.address, host.port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
