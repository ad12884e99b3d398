"""`psclust inject`: failures on purpose, to see what a run does about them."""

from __future__ import annotations

import random
import sys
import time

import click

from psclust.cli import output
from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import names_and_tasks
from psclust.cli.run_selection import current_run, find_cluster, job_runs
from psclust.errors import NoRunError, PsclustError, UsageError
from psclust.launch.fault_target import FaultTarget, find_fault_target
from psclust.rundir.agents_file import read_agents
from psclust.rundir.folder import ClusterFolder
from psclust.transport.faults import Fault, FaultKind

_DONE = {
    "kill": "was killed by SIGKILL",
    "freeze": "is frozen (SIGSTOP) for {for_s:g} s",
    "slow": "carry {rate} kB/s for {for_s:g} s",
    "cut": "are cut for {for_s:g} s",
}


@click.command()
@click.argument("kind", type=click.Choice(list(_DONE)))
@click.argument("target", shell_complete=names_and_tasks(live=True))
@click.option("--after", "after_s", type=click.FloatRange(0), default=0, help="Wait so long first.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.5),
    help="Again after so long, until the run ends.",
)
@click.option(
    "--for",
    "for_s",
    type=click.FloatRange(0.1, 3600),
    default=10,
    show_default=True,
    help="How long a freeze, a slow or a cut link lasts.",
)
@click.option(
    "--rate",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="What a slow link carries in each direction, in kB/s.",
)
@click.option("--seed", type=int, help="Draws the same tasks of a job again.")
@click.option("--run", "name", metavar="NAME", help="The run, if several are live.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is done on other hosts.")
@run_dir_option
def command(
    kind: FaultKind,
    target: str,
    after_s: float,
    every_s: float | None,
    for_s: float,
    rate: int,
    seed: int | None,
    name: str | None,
    yes: bool,
    run_dir: str | None,
) -> None:
    """Rehearse a failure of a live run: kill or freeze a process, slow or cut the links of a host.

    TARGET is a task (ps:0), a job (one of its tasks, by chance), a host, or supervisor. Of a host,
    kill and freeze mean psclust's agent there. Times are in seconds.

    \b
    psclust inject kill worker --every 30 --seed 1
    psclust inject freeze ps:0 --for 5
    psclust inject cut h2 --for 20 --yes

    slow and cut drop packets between the host and all others, those of other programs included;
    they need root and nftables on that host. A freeze, a slow and a cut link end by themselves,
    also if this command, the run, or psclust's processes there are killed meanwhile. The run's
    events and its report show what was done.
    """
    lasts_s = 0.0 if kind == "kill" else for_s
    if every_s is not None and every_s <= lasts_s:
        raise UsageError(f"--every {every_s:g}: must be longer than --for {for_s:g}.")
    cluster = find_cluster(name, run_dir, live=True)
    chance = random.Random(seed)
    _confirm(_find(cluster, target, kind, random.Random(seed)), cluster, yes=yes)
    time.sleep(after_s)
    while True:
        try:
            _inject(cluster, target, Fault(kind, for_s=for_s, rate=rate), chance)
        except PsclustError as error:
            if every_s is None or error.exit_code != UsageError.exit_code:
                raise
            if not cluster.is_live():
                output.say(f"{cluster.name} has ended")
                return
            output.say(f"{_clock()}  nothing done: {error}")
        if every_s is None:
            return
        time.sleep(every_s)


def _inject(cluster: ClusterFolder, word: str, fault: Fault, chance: random.Random) -> None:
    from dataclasses import replace

    from psclust.control.supervisor_client import SupervisorClient

    target = _find(cluster, word, fault.kind, chance)
    how = _DONE[fault.kind].format(for_s=fault.for_s, rate=fault.rate)
    text = f"{target.name} {how}"
    with SupervisorClient(current_run(cluster)) as client:
        client.inject(target.host, replace(fault, pid=target.pid), f"{text} (psclust inject)")
    output.say(f"{_clock()}  {text}")


def _find(cluster: ClusterFolder, word: str, kind: FaultKind, chance: random.Random) -> FaultTarget:
    folder = current_run(cluster)
    if not cluster.is_live():
        raise NoRunError(f"{cluster.name} has ended.")
    agents = read_agents(folder)
    return find_fault_target(
        word, kind, job_runs().status(folder), agents.hosts if agents else (), chance
    )


def _confirm(target: FaultTarget, cluster: ClusterFolder, *, yes: bool) -> None:
    """Ask before a fault hits another machine."""
    agents = read_agents(current_run(cluster))
    elsewhere = cluster.is_elsewhere() or (agents is not None and target.host in agents.hosts)
    if yes or not elsewhere:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{target.name} is not on this machine: confirm with --yes.")
    click.confirm(f"{target.name} is not on this machine. Go on?", abort=True, err=True)


def _clock() -> str:
    return time.strftime("%H:%M:%S")
