"""The choice of each host's address, on a made-up network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from psclust.agent.process import AgentReply
from psclust.control.bootstrap import AgentSettings, common_addresses
from psclust.errors import StartError
from psclust.plan.task_environment import HostEnvironment

PORT = 2300
HERE = HostEnvironment({}, "/", "python", None)


@dataclass
class Network:
    """own: the addresses of each host. closed: pairs of a host and an address that it does not
    reach."""

    own: dict[str, list[str]]
    closed: set[tuple[str, str]]

    def listen(self, host: str, addresses: Sequence[str], ports: str) -> list[str]:
        assert set(addresses) <= set(self.own[host])
        return [f"{address}:{PORT}" for address in addresses or self.own[host]]

    def probe(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        return {
            host: [
                one for one in addresses if (host, one.removesuffix(f":{PORT}")) not in self.closed
            ]
            for host in self.own
        }


def found(network: Network, interface: str | None = None) -> dict[str, str]:
    replies = {
        host: AgentReply(1, own[0], 4000, "/run", HERE, 0, "") for host, own in network.own.items()
    }
    return common_addresses(network, replies, AgentSettings("n", 30.0, 5.0, interface, {}, {}, {}))


def test_the_address_that_ssh_reached_where_all_reach_it() -> None:
    assert found(Network({"a": ["10.0.0.1", "192.168.0.1"], "b": ["10.0.0.2"]}, set())) == {
        "a": "10.0.0.1",
        "b": "10.0.0.2",
    }


def test_another_one_that_all_reach_where_one_host_does_not() -> None:
    network = Network(
        {"a": ["1.1.1.1", "172.16.0.1", "10.0.0.1"], "b": ["10.0.0.2"]},
        {("b", "1.1.1.1"), ("b", "172.16.0.1")},
    )
    assert found(network) == {"a": "10.0.0.1", "b": "10.0.0.2"}


@pytest.mark.parametrize(("interface", "others"), [("eth0", ["10.0.0.1"]), (None, [])])
def test_who_does_not_reach_whom_where_there_is_none_or_the_user_has_chosen(
    interface: str | None, others: list[str]
) -> None:
    network = Network(
        {"a": ["1.1.1.1", *others], "b": ["10.0.0.2"], "c": ["10.0.0.3"]},
        {("b", "1.1.1.1"), ("c", "1.1.1.1")},
    )
    with pytest.raises(
        StartError, match=r"^a: not reached at 1\.1\.1\.1 from b, c; open the firewall"
    ):
        found(network, interface)
