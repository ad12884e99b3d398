"""The addresses at which the hosts of a run reach each other, found by trying them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from psclust.agent.process import AgentReply
from psclust.control.bootstrap import AgentSettings
from psclust.errors import StartError
from psclust.reach.fan_out import on_each


class AddressProbe(Protocol):
    """The part of SupervisorClient that is needed here."""

    def listen(self, host: str, addresses: Sequence[str], ports: str) -> list[str]: ...

    def probe(self, addresses: Sequence[str]) -> dict[str, list[str]]: ...


def common_addresses(
    supervisor: AddressProbe, replies: Mapping[str, AgentReply], settings: AgentSettings
) -> dict[str, str]:
    """For each host an address to which all hosts can connect, tried on a port from the range for
    tasks: the one its agent listens on, else the first other one that works, unless the user chose
    an interface. Raises StartError, which names the hosts that cannot connect."""
    listening = on_each(
        list(replies), lambda host: supervisor.listen(host, [replies[host].address], settings.ports)
    )
    own = {address: host for host, found in listening.items() for address in found}
    found, missing = _reached_by_all(supervisor, own)
    if missing and settings.interface is None:
        others: dict[str, str] = {}
        for host in missing:
            others |= dict.fromkeys(supervisor.listen(host, [], settings.ports), host)
        more, _ = _reached_by_all(supervisor, others)
        found |= more
    lines = [
        f"{host}: not reached at {replies[host].address} from {', '.join(missing[host])}; "
        "open the firewall between the hosts, or choose another network with `interface:`"
        for host in missing
        if host not in found
    ]
    if lines:
        raise StartError("\n".join(lines))
    return {host: found[host] for host in replies}


def _reached_by_all(
    supervisor: AddressProbe, addresses: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Host -> its first address that all hosts reach; for a host without one, the hosts that do not
    reach the last."""
    reached = supervisor.probe(list(addresses)) if addresses else {}
    found: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    for address, host in addresses.items():
        without = [other for other, those in reached.items() if address not in those]
        if without:
            missing[host] = without
        else:
            found.setdefault(host, address.rpartition(":")[0])
    return found, {host: without for host, without in missing.items() if host not in found}
