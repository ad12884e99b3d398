"""`psclust up` on four hosts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from on_hosts import PATIENT, isolated, left, write_file

from beds.command import CommandBed, typed
from beds.hosts import BedHost, HostBed
from beds.tiers import longer
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


def test_every_hosts_output_and_the_first_cause_are_here(far: CommandBed, hosts: HostBed) -> None:
    script = """
import os, sys, time
task = os.environ["PSCLUST_TASK"]
print("here is", task, flush=True)
open(task, "w").close()
if task == "worker:2":
    while not all(os.path.exists(f"worker:{i}") for i in range(4)):
        time.sleep(0.02)
    sys.exit("the disk is on fire")
time.sleep(1000)
"""
    write_file(far, hosts, script)
    said = far.fails(1, "up")
    for index in range(4):
        assert f"here is worker:{index}" in said
    assert "the disk is on fire" in far.log("worker:2")


def test_a_detached_run_is_found_again_restarted_followed_and_ended(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT)
    far.done("up", "-d")
    far.wait_for("worker:1", "running")
    said = far.done_here("ps", "--json")
    assert [task["host"] for task in json.loads(said)["tasks"]] == ["h1", "h2", "h3", "h4"]
    far.done("restart", "worker:1")
    far.wait_for("worker:1", "running", attempt=2)
    wait_until(lambda: "up" in far.log("worker:1", 2), what="the second attempt's output")
    assert "up" in far.run_here("logs", "worker:1")[1]
    watching = far.start("attach")
    watching.until("| up", 5)
    watching.interrupt()
    assert watching.wait() == 0
    (row,) = json.loads(far.run_here("clusters", "--json")[1])
    assert (row["name"], row["state"], row["hosts"]) == ("bed", "live", ["h1", "h2", "h3", "h4"])
    watching = far.start("attach")
    far.done("down")
    wait_until(lambda: not left(hosts), what="the end of the agents' own processes")
    assert watching.wait() == 143


@pytest.mark.long
@isolated
@pytest.mark.parametrize("live", [True, False])
def test_purged_not_even_the_runs_folders_are_left_nor_what_was_sent(
    apart: CommandBed, hosts: HostBed, live: bool
) -> None:
    for host in hosts.hosts:
        for folder in (".local/state/psclust", ".cache/psclust"):
            shutil.rmtree(host.home / folder, ignore_errors=True)
    name = f"purged-{live}".lower()
    write_file(apart, hosts, "print('first')", name=name)
    apart.done("up")
    write_file(apart, hosts, PATIENT if live else "print('second')", name=name)
    apart.done("up", *(["-d"] if live else []))
    for host in hosts.hosts:
        assert (
            len(list(host.home.glob(f".local/state/psclust/agents/{name}/*/{host.name}/logs"))) == 2
        )
        assert len(list(host.home.glob(".cache/psclust/folders/*/train.py"))) == 2
    said = apart.done("down", "--purge")
    assert said.splitlines()[-1] == f"nothing of {name} is left on other hosts"
    assert [str(found) for host in hosts.hosts for found in host.home.glob(".*/**/psclust*")] == []
    assert apart.done("down", "--purge") == (said.splitlines()[-1] + "\n"), (
        "and nobody is asked again"
    )


def test_a_supervisor_that_is_killed_leaves_nothing_on_any_host_after_the_lease(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT, deadlines={"lease": 4})
    running = far.start("up")
    far.wait_for("worker:3", "running")
    far.supervisor().kill()
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


def test_a_killed_up_ends_the_run_on_all_hosts_at_once(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT)
    running = far.start("up")
    far.wait_for("worker:3", "running")
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


def test_a_host_that_vanishes_ends_the_run_with_its_name(far: CommandBed, hosts: HostBed) -> None:
    write_file(far, hosts, PATIENT, deadlines={"lease": 4})
    running = far.start("up")
    far.wait_for("worker:3", "running")
    hosts[1].cut()
    try:
        code = running.wait(300)
        assert code == 1
        assert "host h2 is lost, with worker:1" in running.output
        assert (
            "no spare slot is left for worker:1; "
            "a host with more `slots` than tasks lets a run go on" in running.output
        )
        if hosts[1].isolated:
            wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    finally:
        hosts[1].heal()


@isolated
def test_a_program_that_no_host_has_is_shipped_and_what_changed_alone_is_sent_again(
    apart: CommandBed, hosts: HostBed
) -> None:
    (apart.folder / "parts").mkdir()
    apart.write("parts/words.py", "HELLO = 'hello from a module'\n")
    apart.write(
        "train.py",
        "import os\nfrom parts.words import HELLO\nprint(HELLO, os.environ['PSCLUST_TASK'])\n",
    )
    up = typed(f"up -H {hosts.names} --ps 0 --workers 4 --no-preload train.py")
    said = apart.done(*up)
    assert sorted(re.findall(r"hello from a module worker:(\d)", said)) == ["0", "1", "2", "3"]
    apart.write("parts/words.py", "HELLO = 'hello again'\n")
    said = apart.done(*up)
    assert "sent 4 files" in said
    assert sorted(re.findall(r"hello again worker:(\d)", said)) == ["0", "1", "2", "3"]


def test_tasks_get_the_variables_that_are_passed_and_nobody_else_sees_them(
    far: CommandBed, hosts: HostBed
) -> None:
    secret = "do-not-tell-anybody"
    script = (
        f"import os, time\nprint('told' if os.environ.get('TOKEN') == {secret!r} else 'not told', "
        "'OTHER' in os.environ, flush=True)\n"
    )
    write_file(far, hosts, script + "time.sleep(1000)\n", pass_env=["TOK*"])
    far.environ |= {"TOKEN": secret, "OTHER": "x"}
    assert secret not in far.run("plan")[1]
    far.done("up", "-d")
    wait_until(
        lambda: all("told False" in far.log(f"worker:{index}") for index in range(4)),
        what="the variables",
    )
    for host in hosts.hosts:
        assert secret not in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert secret not in far.run_folder().plan.read_text()
    far.done("down")


@pytest.mark.long
@isolated
def test_agents_behind_closed_ports_are_reached_through_ssh(
    far: CommandBed, hosts: HostBed
) -> None:
    launcher = hosts[0].address.rpartition(".")[0] + ".254"
    fence = (
        f"table inet fence {{\n chain in {{\n type filter hook input priority 0\n"
        f" ip saddr {launcher} tcp dport != 22 drop\n }}\n}}\n"
    )
    for host in hosts.hosts:
        subprocess.run(host.command("nft", "-f", "-"), input=fence.encode(), check=True)
    try:
        write_file(far, hosts, "print('done')", tunnel=True)
        assert far.done("up").count("| done") == 4
    finally:
        for host in hosts.hosts:
            host.run("nft", "delete", "table", "inet", "fence")


@pytest.mark.parametrize("encrypt", ["--encrypt", *longer("--no-encrypt")])
def test_no_port_of_a_task_answers_on_another_interface(
    far: CommandBed, hosts: HostBed, encrypt: str
) -> None:
    far.done("up", "-d", encrypt, "-H", "h1,h2", "--ps", "1", "--workers", "1")
    for task in far.status().tasks:
        host = next(host for host in hosts.hosts if host.name == task.host)
        port = (task.address or "").rpartition(":")[2]
        assert _accepts(host, host.address, port) == (encrypt == "--no-encrypt")
        assert _accepts(host, "127.0.0.1", port) == (encrypt == "--encrypt")
    far.done("down")


def _accepts(host: BedHost, address: str, port: str) -> bool:
    command = host.command("timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
    return subprocess.run(command, capture_output=True).returncode == 0
