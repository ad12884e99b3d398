"""`psclust up` on four hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from on_hosts import PATIENT, isolated, left, write_file

from beds.command import CommandBed
from beds.hosts import BedHost, HostBed, host_bed
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
    code, said = far.run("up")
    assert code == 1
    for index in range(4):
        assert f"here is worker:{index}" in said
    assert "the disk is on fire" in far.log("worker:2")


def test_a_detached_run_is_found_again_restarted_followed_and_ended(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT)
    code, said = far.run("up", "-d")
    assert code == 0, said
    far.wait_for("worker:1", "running")
    code, said = far.run_here("ps", "--json")
    assert [task["host"] for task in json.loads(said)["tasks"]] == ["h1", "h2", "h3", "h4"]
    assert far.run("restart", "worker:1")[0] == 0
    far.wait_for("worker:1", "running", attempt=2)
    wait_until(lambda: "up" in far.log("worker:1", 2), what="the second attempt's output")
    assert "up" in far.run_here("logs", "worker:1")[1]
    watching = far.start("attach")
    wait_until(lambda: watching.output.count("| up") == 5, what="the output of all attempts")
    watching.interrupt()
    assert watching.wait() == 0
    (row,) = json.loads(far.run_here("clusters", "--json")[1])
    assert (row["name"], row["state"], row["hosts"]) == ("bed", "live", ["h1", "h2", "h3", "h4"])
    watching = far.start("attach")
    code, said = far.run("down")
    assert code == 0, said
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
    assert apart.run("up")[0] == 0
    write_file(apart, hosts, PATIENT if live else "print('second')", name=name)
    assert apart.run("up", *(["-d"] if live else []))[0] == 0
    for host in hosts.hosts:
        assert (
            len(list(host.home.glob(f".local/state/psclust/agents/{name}/*/{host.name}/logs"))) == 2
        )
        assert len(list(host.home.glob(".cache/psclust/folders/*/train.py"))) == 2
    code, said = apart.run("down", "--purge")
    assert (code, said.splitlines()[-1]) == (0, f"nothing of {name} is left on other hosts"), said
    assert [str(found) for host in hosts.hosts for found in host.home.glob(".*/**/psclust*")] == []
    assert apart.run("down", "--purge") == (0, said.splitlines()[-1] + "\n"), (
        "and nobody is asked again"
    )


def test_a_supervisor_that_is_killed_leaves_nothing_on_any_host_after_the_lease(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT, deadlines={"lease": 4})
    running = far.start("up")
    far.wait_for("worker:3", "running")
    status = far.status()
    assert status is not None
    os.kill(status.supervisor, signal.SIGKILL)
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


def test_a_host_whose_sshd_and_agent_are_killed_ends_the_run_with_its_name(tmp_path: Path) -> None:
    with host_bed(tmp_path / "hosts", 2) as hosts:
        (hosts.shared / "bed").mkdir()
        far = CommandBed(hosts.shared / "bed", {"HOME": str(hosts.home)})
        write_file(far, hosts, PATIENT, jobs={"worker": 2}, deadlines={"lease": 4})
        running = far.start("up")
        far.wait_for("worker:1", "running")
        hosts[1].stop_sshd()
        for process in hosts[1].processes():
            with suppress(psutil.NoSuchProcess):  # a guard that cleans up and goes
                if "psclust.agent" in process.cmdline():
                    process.kill()
        assert running.wait(300) == 1
        assert "host h2 is lost, with worker:1" in running.output
        wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


@pytest.mark.long
def test_a_short_cut_changes_nothing(far: CommandBed, hosts: HostBed) -> None:
    write_file(
        far,
        hosts,
        "import time\nfor i in range(80): print(i, flush=True); time.sleep(0.1)\n",
        deadlines={"lease": 30},
    )
    running = far.start("up")
    wait_until(
        lambda: "3\n" in (far.log("worker:1") if far.cluster().current() else ""),
        what="the first lines",
    )
    hosts[1].cut()
    # Others are heard in the meantime, this one is not.
    here = far.log("worker:0").count("\n") + 20
    wait_until(lambda: far.log("worker:0").count("\n") > here, what="lines of the others")
    hosts[1].heal()
    assert running.wait(300) == 0, running.output
    assert far.log("worker:1").splitlines() == [str(number) for number in range(80)]


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
    code, said = apart.run(
        "up", "-H", hosts.names, "--ps", "0", "--workers", "4", "--no-preload", "train.py"
    )
    assert code == 0, said
    assert sorted(re.findall(r"hello from a module worker:(\d)", said)) == ["0", "1", "2", "3"]
    apart.write("parts/words.py", "HELLO = 'hello again'\n")
    code, said = apart.run(
        "up", "-H", hosts.names, "--ps", "0", "--workers", "4", "--no-preload", "train.py"
    )
    assert code == 0, said
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
    code, said = far.run("up", "-d")
    assert code == 0, said
    wait_until(
        lambda: all("told False" in far.log(f"worker:{index}") for index in range(4)),
        what="the variables",
    )
    for host in hosts.hosts:
        assert secret not in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert secret not in far.run_folder().plan.read_text()
    assert far.run("down")[0] == 0


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
        code, said = far.run("up")
        assert code == 0, said
        assert said.count("| done") == 4
    finally:
        for host in hosts.hosts:
            host.run("nft", "delete", "table", "inet", "fence")


def test_no_port_of_a_cluster_answers_on_another_interface(far: CommandBed, hosts: HostBed) -> None:
    code, said = far.run("up", "-d", "-H", hosts.names, "--ps", "2", "--workers", "2")
    assert code == 0, said
    status = far.status()
    assert status is not None
    for task in status.tasks:
        host = next(host for host in hosts.hosts if host.name == task.host)
        port = (task.address or "").rpartition(":")[2]
        assert _accepts(host, host.address, port)
        assert not _accepts(host, "127.0.0.1", port)
    assert far.run("down")[0] == 0


def _accepts(host: BedHost, address: str, port: str) -> bool:
    command = host.command("timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
    return subprocess.run(command, capture_output=True).returncode == 0
