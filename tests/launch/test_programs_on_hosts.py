"""Programs as people have them, on four hosts: the digits in all four ways, scripts unchanged,
servers for a client from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from four_ways import in_all_four_ways

from beds.command import CommandBed, typed
from beds.hosts import HostBed
from beds.learning import DIGITS, is_learned
from beds.scripts import CLASSIC, DIAL, TOLD_BY_TF_CONFIG

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def _up(far: CommandBed, hosts: HostBed, *arguments: str) -> str:
    """What it says; it must end well."""
    said = far.done("up", "-H", hosts.names, *arguments)
    return said


# On one machine all four ways are tried in test_four_ways.py.
@in_all_four_ways()
def test_the_digits_are_learned_on_four_hosts(
    far: CommandBed, hosts: HostBed, replication: str, update: str
) -> None:
    # In-graph the client writes the files, and workers on other hosts read them.
    how = typed(f"--ps 2 --workers 4 --replication {replication} {update}")
    said = _up(far, hosts, *how, DIGITS, "--set", f"data_dir={far.folder}/digits")
    assert is_learned(said), said
    status = far.status()
    assert {task.host for task in status.tasks} == {"h1", "h2", "h3", "h4"}
    # Encrypted, by psclust's own wire, too.
    addresses = [task.address or "" for task in status.tasks]
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert len(set(addresses)) == len(addresses)
    assert "is used, which takes more time" not in said


def test_lines_from_hosts_have_the_times_of_this_machine(far: CommandBed, hosts: HostBed) -> None:
    began = time.time()
    _up(far, hosts, *typed("--ps 0 --workers 2 -- bash -c 'echo one; sleep 0.3; echo two'"))
    ended = time.time()
    said = far.done_here("logs", "--json")
    found = [json.loads(line) for line in said.splitlines()]
    assert [line["text"] for line in found if line["task"] == "worker:1"] == ["one", "two"]
    assert all(began < line["time"] < ended for line in found), (began, found, ended)
    first, second = (line["time"] for line in found if line["task"] == "worker:1")
    assert 0.15 < second - first < ended - began


@pytest.mark.long
# One with flags is in the test of proxies.
@pytest.mark.parametrize(
    "script",
    [CLASSIC, TOLD_BY_TF_CONFIG],
    ids=["classic flags", "TF_CONFIG"],
)
def test_a_script_runs_unchanged(far: CommandBed, hosts: HostBed, script: str) -> None:
    far.write("train.py", script)
    said = _up(far, hosts, "--ps", "1", "--workers", "2", "train.py")
    for task, host in (("worker:0", "h2"), ("worker:1", "h3")):
        trained = re.search(rf"{task} +\| trained to (\S+)", said)
        assert trained, said
        assert float(trained[1]) < 1.0  # from 10; a slow worker may add an old gradient
        assert far.wait_for(task, "done").host == host


@pytest.mark.long
def test_bare_servers_are_dialled_from_a_process_that_is_no_task_as_up_says(
    far: CommandBed, hosts: HostBed
) -> None:
    said = _up(far, hosts, "-d", "--no-encrypt", "--ps", "2", "--workers", "2")
    target = next(line.split("'")[1] for line in said.splitlines() if "dial it" in line)
    assert target.startswith(f"grpc://{hosts[2].address}:")
    client = subprocess.run(
        [sys.executable, "-c", DIAL, target], capture_output=True, text=True, timeout=300
    )
    assert "dialled 2.0" in client.stdout, client.stderr
    far.done("down")


@pytest.mark.long
def test_proxies_set_on_every_machine_do_not_catch_the_traffic(
    far: CommandBed, hosts: HostBed
) -> None:
    proxies = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy", "all_proxy"),
        "http://127.0.0.1:9",
    )
    far.environ |= proxies
    far.write("train.py", CLASSIC + "import os\nprint('proxy', os.environ['http_proxy'])\n")
    for host in hosts.hosts:
        # Where the shells of a host have them from.
        (host.home / ".bashrc").write_text(
            "".join(f"export {name}={value}\n" for name, value in proxies.items())
        )
    try:
        said = _up(far, hosts, "--ps", "2", "--workers", "2", "train.py")
    finally:
        for host in hosts.hosts:
            (host.home / ".bashrc").unlink()
    assert said.count("trained to") == 2
    assert said.count("proxy http://127.0.0.1:9") == 2
