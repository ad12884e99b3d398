"""`psclust doctor`: check hosts before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from psclust.cli import output
from psclust.cli.common_options import json_option
from psclust.cli.host_options import host_options, logged_in, read_hosts
from psclust.launch.host_agents import other_hosts
from psclust.reach.doctor.finding import Finding
from psclust.rundir.folder import state_root
from psclust.rundir.links_file import Link, keep_links
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.plurals import counted, some_of
from psclust.spec.port_range import parse_port_range
from psclust.transport.server_shim import server_shim

_SHOWN = 4  # different results in a row


@click.command()
@host_options
@click.option(
    "--python",
    metavar="PYTHON",
    help="The tasks' interpreter there (default: the file's, else this one's path, else python3).",
)
@json_option
def command(
    path: str | None, hosts: str | None, hostfile: str | None, python: str | None, as_json: bool
) -> int:
    """Check all hosts at once, or this machine if none is named.

    Log-in, Python, TensorFlow and psclust, disk, memory, GPUs, clock, names, proxies, whether
    servers listen on one interface only, who else can reach them, TCP's congestion control, and
    whether hosts reach each other on the cluster's ports, and how fast: 8 MB at most between two
    hosts, in a second at most. Installs nothing and leaves nothing behind there; `psclust plan`
    here counts with the speeds.

    Exit code 0 if a cluster can start (there may be notes), else 1.
    """
    from psclust.reach.doctor.examination import examine, examine_here

    file = read_hosts(path, hosts, hostfile)
    shim = server_shim()
    wanted = (python or file.python, port_ranges(file), Path(shim) if shim else None)
    if not other_hosts(file):
        names, examined = ["localhost"], examine_here(*wanted)
    else:
        names = [host.name for host in file.hosts]
        if file.found and not as_json:
            output.say(file.found)
        with logged_in(file, file.hosts) as connections:
            examined = examine(connections, *wanted, Path.cwd())
        if examined.links:
            # `psclust plan` counts with them.
            with suppress(OSError):
                keep_links(state_root(os.environ), examined.links)
    found = examined.findings
    if as_json:
        output.data([*map(asdict, found), *map(_link_entry, examined.links)])
    else:
        output.table(("HOST", "CHECK", "RESULT"), list(rows(found, names)))
        output.say(_verdict(found))
    return 1 if any(finding.level == "problem" for finding in found) else 0


def _link_entry(link: Link) -> dict[str, object]:
    """As a finding, with the numbers as fields of their own."""
    host, other = link.hosts
    mbit, trip_ms = round(1000 * link.gbit, 1), round(1000 * link.round_trip_s, 3)
    found = Finding(host, "link", "ok", f"{mbit:g} Mbit/s and {trip_ms:g} ms to {other}")
    return {**asdict(found), "to": other, "mbit": mbit, "round_trip_ms": trip_ms}


def port_ranges(file: ClusterFile) -> list[tuple[int, int]]:
    """The ports on which the cluster's servers may listen: first and last of each range."""
    texts = dict.fromkeys([file.ports, *(job.ports for job in file.jobs.values() if job.ports)])
    return [parse_port_range(text) for text in texts]


def rows(found: Sequence[Finding], hosts: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    """For each check, one row for all hosts where it is ok, then one for each note or problem, with
    its remedy."""
    for check in dict.fromkeys(finding.check for finding in found):
        here = [finding for finding in found if finding.check == check]
        fine = [finding for finding in here if finding.level == "ok"]
        if fine:
            texts = list(dict.fromkeys(finding.text for finding in fine))
            result = "; ".join(texts[:_SHOWN]) + ("; ..." if len(texts) > _SHOWN else "")
            yield _named(fine, hosts), check, result
        for text, remedy in dict.fromkeys(
            (finding.text, finding.remedy) for finding in here if finding.level != "ok"
        ):
            same = [finding for finding in here if (finding.text, finding.remedy) == (text, remedy)]
            yield (
                _named(same, hosts),
                check,
                f"{same[0].level.upper()}: {text}{f'. {remedy}' if remedy else ''}",
            )


def _named(found: Sequence[Finding], hosts: Sequence[str]) -> str:
    names = list(dict.fromkeys(finding.host for finding in found))
    if len(names) == len(hosts) > 1:
        return f"all {len(hosts)}"
    return some_of(names)


def _verdict(found: Sequence[Finding]) -> str:
    count = sum(finding.level == "problem" for finding in found)
    return (
        "A cluster can start here."
        if not count
        else f"{counted(count, 'problem')}: a cluster would not start or not work."
    )
