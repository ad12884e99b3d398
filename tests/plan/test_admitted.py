"""Who may connect to the tasks of a plan."""

from __future__ import annotations

from dataclasses import replace

from script_sources import LAUNCHER

from psclust.plan.admitted import admitted
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile

ADDRESSES = {
    "a": ("10.0.0.1", "10.0.0.1", "10.9.0.1", "172.17.0.1"),
    "b": ("10.0.0.2", "172.17.0.1", "192.168.5.2"),
    "c": ("127.0.0.4", "localhost"),
}


def test_the_other_hosts_may_at_all_their_addresses() -> None:
    assert admitted("b", ADDRESSES, []) == ("10.0.0.1", "10.9.0.1")
    assert admitted("a", ADDRESSES, ["10.1.0.0/16"]) == ("10.0.0.2", "192.168.5.2", "10.1.0.0/16")


def test_on_one_machine_nobody_may_by_address() -> None:
    assert admitted("localhost", {}, []) == ()
    assert admitted("127.0.0.1", {"127.0.0.1": ["127.0.0.1"], "localhost": ["localhost"]}, []) == ()


def test_all_is_everybody() -> None:
    assert admitted("a", ADDRESSES, ["10.1.0.0/16", "all"]) == ("all",)


def _plan(lost: tuple[str, ...] = (), **keys: object) -> Plan:
    hosts = [Host(name, slots=2) for name in "abc"]
    file = ClusterFile.model_validate({"name": "t", "hosts": hosts, **keys}, strict=False)
    here = replace(LAUNCHER, addresses=("10.0.0.9",))
    remote = {
        name: RemoteHost(replace(LAUNCHER, addresses=(f"10.5.0.{n}",)), "/r", f"10.0.0.{n}")
        for n, name in enumerate("abc", 1)
    }
    inputs = PlanInputs(file, {}, remote, here)
    return build_plan(inputs, inputs.lay_out(lost), Run("r1", "/r"), {})


def _admit(plan: Plan) -> dict[str, str]:
    return {str(each.task): each.env["PSCLUST_ADMIT"] for each in plan.tasks}


def test_spare_hosts_may_too_and_lost_ones_may_not() -> None:
    program = {"program": "train.py", "admit": ["10.7.0.0/16"], "jobs": {"ps": 1, "worker": 1}}
    assert _admit(_plan(**program)) == {
        "ps:0": "10.0.0.2,10.5.0.2,10.0.0.3,10.5.0.3,10.7.0.0/16",
        "worker:0": "10.0.0.1,10.5.0.1,10.0.0.3,10.5.0.3,10.7.0.0/16",
    }
    assert "10.0.0.3" not in _plan(("c",), **program).to_json()


def test_bare_servers_are_driven_from_where_they_were_started() -> None:
    assert {told.split(",")[-1] for told in _admit(_plan()).values()} == {"10.0.0.9"}
    assert not any("10.0.0.9" in told for told in _admit(_plan(program="train.py")).values())


def test_in_an_encrypted_run_nobody_may_by_address_so_that_hosts_may_join() -> None:
    hosts = [Host(name, slots=2) for name in "ab"]
    file = ClusterFile.model_validate({"name": "t", "hosts": hosts}, strict=False)
    remote = {
        host.name: RemoteHost(LAUNCHER, "/r", "127.0.0.1", f"{host.name}:7000") for host in hosts
    }
    here = replace(LAUNCHER, addresses=("10.0.0.9",))
    inputs = PlanInputs(file, {}, remote, here)
    made = build_plan(inputs, inputs.lay_out(), Run("r1", "/r"), {})
    assert set(_admit(made).values()) == {""}
