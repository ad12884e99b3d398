"""A real Slurm for tests, on one machine: munged, slurmctld and one slurmd a node, all of them in
one folder: `with slurm_bed(folder, 4) as slurm: ...`. Needs root.

The nodes share this machine, or, `isolated`, each has its own network and name, so that it can be
cut off. Every allocation is a job of this Slurm: `salloc`, `sbatch` and `srun` with
`SlurmBed.environ`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from beds.free_ports import free_ports
from beds.namespaces import Network
from beds.sshd import find_program
from psclust.testing.wait import wait_until

Tracking = Literal["linuxproc", "cgroup"]
_START_S = 60.0
_END_S = 10.0

# Partition `all` is the default; a job in `high` pre-empts one in `low`, which is requeued.
_CONFIG = """
ClusterName=bed
SlurmctldHost={controller}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd-%n
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldTimeout=10
SlurmdTimeout=10
KillWait=10
MinJobAge=300
InactiveLimit=0
MessageTimeout=10
SlurmdParameters=config_overrides
GresTypes=gpu
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=10
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=20 PreemptMode=OFF
"""
_NVIDIA = 195  # the major number of its devices


@dataclass
class SlurmNode:
    """name: as in `srun --nodelist`. address: IPv4. slurmd: its daemon."""

    name: str
    address: str
    slurmd: subprocess.Popen[bytes]
    network: Network | None = None

    def cut(self) -> None:
        """Drop all packets between the node and others; of an isolated bed."""
        assert self.network is not None
        self.network.cut(self.name)

    def heal(self) -> None:
        assert self.network is not None
        self.network.heal(self.name)

    def kill_slurmd(self) -> None:
        """Steps on the node live on."""
        self.slurmd.kill()
        self.slurmd.wait()


@dataclass
class SlurmBed:
    """environ: variables with which Slurm's commands reach this Slurm."""

    folder: Path
    nodes: Sequence[SlurmNode] = ()
    environ: dict[str, str] = field(default_factory=dict)
    daemons: _Daemons | None = None

    def start_slurmd(self, node: SlurmNode) -> None:
        """Again, after it has ended."""
        assert self.daemons is not None
        node.slurmd = self.daemons(node.name, _slurmd(node.name, node.network))

    def __getitem__(self, index: int) -> SlurmNode:
        return self.nodes[index]

    def run(self, *command: str, check: bool = True) -> str:
        """The output of a command such as `squeue`. Raises CalledProcessError."""
        done = subprocess.run(
            command, env={**os.environ, **self.environ}, check=check, capture_output=True, text=True
        )
        return done.stdout

    def node_states(self) -> list[str]:
        """`idle`, `down*` and the like, one for each node."""
        return self.run("sinfo", "-h", "-N", "-p", "all", "-o", "%T", check=False).split()

    def wait_until_idle(self) -> None:
        """Until no job has any node. A node is busy for some seconds after its job, and down for a
        while after it was cut off; the next job would go around it. Raises TimeoutError."""
        wait_until(
            lambda: self.node_states() == ["idle"] * len(self.nodes),
            _START_S,
            what=f"{len(self.nodes)} idle nodes, see {self.folder / 'log'},",
        )

    def jobs(self) -> list[str]:
        """`ID STATE` of each job that has not ended."""
        return self.run("squeue", "-h", "-o", "%i %T", check=False).splitlines()

    def processes(self) -> list[psutil.Process]:
        """Every live process of this Slurm and of its jobs."""
        mark = f"SLURM_CONF={self.environ['SLURM_CONF']}".encode()
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if (
                    mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found


@contextmanager
def slurm_bed(
    folder: Path,
    count: int,
    *,
    isolated: bool = False,
    tracking: Tracking = "linuxproc",
    cpus: int = 8,
    gpus: int = 0,
) -> Iterator[SlurmBed]:
    """`count` nodes, n1, n2, ... (c1, c2, ... with `tracking="cgroup"`: their names are those of
    control groups), idle. cpus: of each node, as Slurm counts them. gpus: devices of each node,
    which no driver serves. Raises FileNotFoundError if a program is missing, and TimeoutError, with
    the log's folder, if Slurm does not start."""
    folder = folder.resolve()
    for part in ("munge", "state", "spool", "log", "dev"):
        (folder / part).mkdir(parents=True)
    names = [f"{'c' if tracking == 'cgroup' else 'n'}{number}" for number in range(1, count + 1)]
    bed = SlurmBed(folder, environ={"SLURM_CONF": str(folder / "slurm.conf")})
    with ExitStack() as stack:
        network = stack.enter_context(Network(names)) if isolated else None
        addresses = {name: network.address(name) if network else "127.0.0.1" for name in names}
        controller = network.gateway if network else "127.0.0.1"
        ports = free_ports(count + 1)
        _write_config(folder, tracking, controller, ports, addresses, cpus, gpus)
        stack.callback(_remove_control_groups, names if tracking == "cgroup" else ())
        stack.callback(_end_leftovers, bed)
        _start_munge(folder, stack)
        start = bed.daemons = _Daemons(bed, stack)
        start("slurmctld", ["slurmctld", "-D", "-c", "-i"])
        wait_until(
            lambda: _answers(controller, ports), _START_S, what=f"slurmctld, see {folder / 'log'},"
        )
        bed.nodes = [
            SlurmNode(name, addresses[name], start(name, _slurmd(name, network)), network)
            for name in names
        ]
        bed.wait_until_idle()
        stack.callback(_end_jobs, bed)
        yield bed


def _write_config(
    folder: Path,
    tracking: Tracking,
    controller: str,
    port: int,
    addresses: dict[str, str],
    cpus: int,
    gpus: int,
) -> None:
    here = socket.gethostname().partition(".")[0]
    text = _CONFIG.format(
        folder=folder, controller=here, address=controller, port=port, tracking=tracking
    )
    for number, (name, address) in enumerate(addresses.items(), 1):
        own = name if address != "127.0.0.1" else here
        gres = f"Gres=gpu:{gpus} " if gpus else ""
        text += (
            f"NodeName={name} NodeHostname={own} NodeAddr={address} Port={port + number} "
            f"CPUs={cpus} RealMemory=4000 {gres}State=UNKNOWN\n"
        )
    for number in range(gpus):
        os.mknod(folder / "dev" / f"nvidia{number}", 0o20666, os.makedev(_NVIDIA, number))
    devices = f"{folder}/dev/nvidia" + (f"[0-{gpus - 1}]" if gpus > 1 else "0")
    (folder / "slurm.conf").write_text(text, encoding="ascii")
    (folder / "gres.conf").write_text(
        "".join(f"NodeName={name} Name=gpu File={devices}\n" for name in addresses) if gpus else ""
    )
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n", encoding="ascii")


def _start_munge(folder: Path, stack: ExitStack) -> None:
    """Whose key and socket only this Slurm uses."""
    own = folder / "munge"
    key, place = own / "key", own / "socket"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    own.chmod(0o711)
    options = {
        "key-file": key,
        "socket": place,
        "pid-file": own / "pid",
        "log-file": folder / "log" / "munged",
        "seed-file": own / "seed",
        "num-threads": 2,
    }
    given = [f"--{name}={value}" for name, value in options.items()]
    command = [find_program("munged"), "--foreground", "--force", *given]
    with (folder / "log" / "munged.out").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    stack.callback(_end, process)
    wait_until(place.exists, _START_S, what=f"munged, see {folder / 'log'},")


@dataclass
class _Daemons:
    """Starts a daemon of Slurm, which ends with the bed."""

    bed: SlurmBed
    stack: ExitStack

    def __call__(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        program, *arguments = command
        with (self.bed.folder / "log" / f"{name}.out").open("wb") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [find_program(program), *arguments],
                env={**os.environ, **self.bed.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.stack.callback(_end, process)
        return process


def _slurmd(name: str, network: Network | None) -> list[str]:
    daemon = [find_program("slurmd"), "-D", "-N", name]
    if network is None:
        return daemon
    # `ip netns exec` would mount another /sys, without control groups.
    space = f"--net=/run/netns/{network.namespace(name)}"
    named = ["sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", name]
    return ["nsenter", space, "unshare", "--uts", *named, *daemon]


def _answers(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def _end_jobs(bed: SlurmBed) -> None:
    user = str(os.geteuid())
    bed.run("scancel", "--user", user, check=False)
    with suppress(TimeoutError):
        wait_until(lambda: not bed.jobs(), _END_S)


def _end(process: subprocess.Popen[Any]) -> None:
    _signal(process.terminate)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        _signal(process.kill)
        process.wait()


def _signal(send: Callable[[], None]) -> None:
    with suppress(ProcessLookupError):
        send()


def _end_leftovers(bed: SlurmBed) -> None:
    """Steps outlive their slurmd, and a process that left its step outlives that."""
    for process in bed.processes():
        with suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)


def _remove_control_groups(names: Sequence[str]) -> None:
    for name in names:
        for place in Path("/sys/fs/cgroup").glob(f"**/slurm*_{name}"):
            for folder in sorted(
                (path for path in [place, *place.rglob("*")] if path.is_dir()), reverse=True
            ):
                with suppress(OSError):
                    folder.rmdir()
