"""`psclust up` on four hosts, each with its own address, name, processes and files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorflow_scripts import CLASSIC, COORDINATOR

from psclust.testing.command import CommandBed
from psclust.testing.hosts import BedHost, HostBed, host_bed
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.tensorflow,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts of their own are namespaces, which need root"),
]

PATIENT = "import time; print('up', flush=True); time.sleep(1000)\n"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
    with host_bed(tmp_path_factory.mktemp("bed") / "hosts", 4) as hosts:
        yield hosts


@pytest.fixture
def far(hosts: HostBed, tmp_path: Path) -> Iterator[CommandBed]:
    """A folder that all hosts share, for a command that knows them; afterwards nothing of psclust may live on any of them."""
    folder = hosts.shared / tmp_path.name / "bed"
    folder.mkdir(parents=True)
    bed = CommandBed(folder, {"HOME": str(hosts.home), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    yield bed
    try:
        wait_until(lambda: not left(hosts) and not bed.processes(), what="the end of everything on the hosts")
    except TimeoutError:
        pytest.fail(f"still alive: {left(hosts)} {bed.end()}")


def left(hosts: HostBed) -> list[str]:
    return [f"{host.name}: {program}" for host in hosts.hosts for program in host.programs()]


def _up(far: CommandBed, hosts: HostBed, *arguments: str) -> tuple[int, str]:
    return far.run("up", "-H", hosts.names, *arguments, deadline=180)


def _file(far: CommandBed, hosts: HostBed, script: str, **keys: object) -> None:
    far.write("train.py", script)
    data = {"hosts": [host.name for host in hosts.hosts], "program": "train.py", "preload": False, "jobs": {"worker": 4}, **keys}
    far.write("psclust.yaml", json.dumps(data))


@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_the_digits_are_learned_on_four_hosts(far: CommandBed, hosts: HostBed, replication: str) -> None:
    # In-graph the client writes the files, and workers on other hosts read them.
    program = ["psclust.examples.digits:program", "--set", f"data_dir={far.folder}/digits"]
    code, said = _up(far, hosts, "--ps", "2", "--workers", "4", "--replication", replication, "--sync", *program)
    assert code == 0, said
    found = re.search(r"evaluation: accuracy (\S+) ", said)
    assert found, said
    assert float(found[1]) >= 0.96, said
    status = far.status()
    assert status is not None
    assert {task.host for task in status.tasks} == {"h1", "h2", "h3", "h4"}
    assert {(task.address or "").rpartition(":")[0] for task in status.tasks} == {host.address for host in hosts.hosts}


def test_a_script_with_the_classic_flags_unchanged(far: CommandBed, hosts: HostBed) -> None:
    far.write("train.py", CLASSIC)
    code, said = _up(far, hosts, "--ps", "2", "--workers", "2", "train.py")
    assert code == 0, said
    for task, host in (("worker:0", "h3"), ("worker:1", "h4")):
        trained = re.search(rf"{task} +\| trained to (\S+)", said)
        assert trained, said
        assert float(trained[1]) < 1e-3
        assert far.wait_for(task, "done").host == host


def test_a_coordinator_script(far: CommandBed, hosts: HostBed) -> None:
    far.write("train.py", COORDINATOR)
    code, said = _up(far, hosts, "--ps", "1", "--workers", "2", "--replication", "coordinator", "train.py")
    assert code == 0, said
    assert "trained to True" in said


def test_every_hosts_output_and_the_first_cause_are_here(far: CommandBed, hosts: HostBed) -> None:
    script = """
import os, socket, sys, time
print("here is", socket.gethostname(), flush=True)
open(socket.gethostname(), "w").close()
if os.environ["PSCLUST_TASK"] == "worker:2":
    while not all(os.path.exists(f"h{i}") for i in (1, 2, 3, 4)):
        time.sleep(0.02)
    sys.exit("the disk is on fire")
time.sleep(1000)
"""
    _file(far, hosts, script)
    code, said = far.run("up", deadline=120)
    assert code == 1
    for host in hosts.hosts:
        assert f"here is {host.name}" in said
    assert "worker:2" in said
    assert "the disk is on fire" in far.log("worker:2")


def test_a_detached_run_is_found_again_restarted_followed_and_ended(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT)
    code, said = far.run("up", "-d", deadline=120)
    assert code == 0, said
    far.wait_for("worker:1", "running")
    code, said = far.run("ps", "--json")
    assert [task["host"] for task in json.loads(said)["tasks"]] == ["h1", "h2", "h3", "h4"]
    assert far.run("restart", "worker:1")[0] == 0
    far.wait_for("worker:1", "running", attempt=2)
    wait_until(lambda: "up" in far.log("worker:1", 2), what="the second attempt's output")
    assert "up" in far.run("logs", "worker:1")[1]
    watching = far.start("attach")
    wait_until(lambda: watching.output.count("| up") == 5, what="the output of all attempts")
    watching.interrupt()
    assert watching.wait() == 0
    (row,) = json.loads(far.run("clusters", "--json")[1])
    assert (row["name"], row["state"], row["hosts"]) == ("bed", "live", ["h1", "h2", "h3", "h4"])
    watching = far.start("attach")
    code, said = far.run("down")
    assert code == 0, said
    wait_until(lambda: not left(hosts), what="the end of the agents' own processes")
    assert watching.wait() == 143


@pytest.mark.parametrize("live", [True, False])
def test_purged_not_even_the_runs_folder_is_left(far: CommandBed, hosts: HostBed, live: bool) -> None:
    name = f"purged-{live}".lower()
    _file(far, hosts, PATIENT if live else "print('done')", name=name)
    where = f"/run/home/.local/state/psclust/agents/{name}"
    assert far.run("up", *(["-d"] if live else []), deadline=120)[0] == 0
    assert all(host.run("find", where, "-name", "logs") for host in hosts.hosts)
    code, said = far.run("down", "--purge", name)
    assert code == 0, said
    for host in hosts.hosts:
        wait_until(lambda host=host: not host.run("sh", "-c", f"find {where} -name logs || true"), what="its end")


def test_a_supervisor_that_is_killed_leaves_nothing_on_any_host_after_the_lease(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT, deadlines={"lease": 4})
    running = far.start("up")
    far.wait_for("worker:3", "running", deadline=60)
    status = far.status()
    assert status is not None
    os.kill(status.supervisor, signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


def test_a_killed_up_ends_the_run_on_all_hosts_at_once(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT)
    running = far.start("up")
    far.wait_for("worker:3", "running", deadline=60)
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


def test_a_host_that_vanishes_ends_the_run_with_its_name(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT, deadlines={"lease": 4})
    running = far.start("up")
    far.wait_for("worker:3", "running", deadline=60)
    hosts[1].cut()
    try:
        code = running.wait(60)
        assert code == 1
        assert "host h2 is lost, with worker:1" in running.output
        assert "no spare slot is left for worker:1; a host with more `slots` than tasks lets a run go on" in running.output
        wait_until(lambda: not left(hosts), what="the end of everything on the hosts")
    finally:
        hosts[1].heal()


def test_a_short_cut_changes_nothing(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, "import time\nfor i in range(80): print(i, flush=True); time.sleep(0.1)\n", deadlines={"lease": 30})
    running = far.start("up")
    wait_until(lambda: "3\n" in (far.log("worker:1") if far.cluster().current() else ""), what="the first lines")
    hosts[1].cut()
    # Others are heard in the meantime, this one is not.
    here = far.log("worker:0").count("\n") + 20
    wait_until(lambda: far.log("worker:0").count("\n") > here, what="lines of the others")
    hosts[1].heal()
    assert running.wait(90) == 0, running.output
    assert far.log("worker:1").splitlines() == [str(number) for number in range(80)]


@pytest.fixture
def apart(bed: CommandBed, hosts: HostBed) -> CommandBed:
    """A folder that no host sees."""
    bed.environ |= {"HOME": str(hosts.home)}
    return bed


def test_a_program_that_no_host_has_is_shipped_and_what_changed_alone_is_sent_again(apart: CommandBed, hosts: HostBed) -> None:
    (apart.folder / "parts").mkdir()
    apart.write("parts/words.py", "HELLO = 'hello from a module'\n")
    apart.write("train.py", "import socket\nfrom parts.words import HELLO\nprint(HELLO, socket.gethostname())\n")
    code, said = apart.run("up", "-H", hosts.names, "--ps", "0", "--workers", "4", "--no-preload", "train.py", deadline=120)
    assert code == 0, said
    assert sorted(re.findall(r"hello from a module (h\d)", said)) == ["h1", "h2", "h3", "h4"]
    apart.write("parts/words.py", "HELLO = 'hello again'\n")
    code, said = apart.run("up", "-H", hosts.names, "--ps", "0", "--workers", "4", "--no-preload", "train.py", deadline=120)
    assert code == 0, said
    assert "sent 4 files" in said
    assert sorted(re.findall(r"hello again (h\d)", said)) == ["h1", "h2", "h3", "h4"]


def test_tasks_get_the_variables_that_are_passed_and_nobody_else_sees_them(far: CommandBed, hosts: HostBed) -> None:
    secret = "do-not-tell-anybody"
    script = f"import os, time\nprint('told' if os.environ.get('TOKEN') == {secret!r} else 'not told', 'OTHER' in os.environ, flush=True)\n"
    _file(far, hosts, script + "time.sleep(1000)\n", pass_env=["TOK*"])
    far.environ |= {"TOKEN": secret, "OTHER": "x"}
    assert secret not in far.run("plan")[1]
    code, said = far.run("up", "-d", deadline=120)
    assert code == 0, said
    wait_until(lambda: all("told False" in far.log(f"worker:{index}") for index in range(4)), what="the variables")
    for host in hosts.hosts:
        assert secret not in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert secret not in far.run_folder().plan.read_text()
    assert far.run("down")[0] == 0


def test_agents_behind_closed_ports_are_reached_through_ssh(far: CommandBed, hosts: HostBed) -> None:
    launcher = hosts[0].address.rpartition(".")[0] + ".254"
    fence = f"table inet fence {{\n chain in {{\n type filter hook input priority 0\n ip saddr {launcher} tcp dport != 22 drop\n }}\n}}\n"
    for host in hosts.hosts:
        subprocess.run(host.command("nft", "-f", "-"), input=fence.encode(), check=True)
    try:
        _file(far, hosts, "print('done')", tunnel=True)
        code, said = far.run("up", deadline=120)
        assert code == 0, said
        assert said.count("| done") == 4
    finally:
        for host in hosts.hosts:
            host.run("nft", "delete", "table", "inet", "fence")


def test_two_clusters_on_the_same_hosts(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT)
    assert far.run("up", "-d", "--name", "one", deadline=120)[0] == 0
    assert far.run("up", "-d", "--name", "two", deadline=120)[0] == 0
    far.wait_for("worker:3", "running", name="one")
    assert far.run("down", "one")[0] == 0
    assert far.task("worker:3", name="two").phase == "running"  # type: ignore[union-attr]
    wait_until(lambda: any("train.py" in line for line in left(hosts)), what="the other cluster")
    assert far.run("down", "two")[0] == 0


def test_nothing_is_started_unless_every_host_is_ready(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT)
    code, said = far.run("up", "-H", f"{hosts.names},nobody-knows-this", deadline=120)
    assert code == 3
    assert "nobody-knows-this" in said
    assert not left(hosts)


@pytest.mark.parametrize("moment", ["logging in", "is up"])
def test_ctrl_c_at_any_moment_leaves_nothing(far: CommandBed, hosts: HostBed, moment: str) -> None:
    _file(far, hosts, PATIENT)
    running = far.start("up")
    wait_until(lambda: moment in running.output, what=moment)
    running.interrupt()
    assert running.wait(60) == 130
    wait_until(lambda: not left(hosts), what="the end of everything on the hosts")


def test_no_port_of_a_cluster_answers_on_another_interface(far: CommandBed, hosts: HostBed) -> None:
    code, said = _up(far, hosts, "-d", "--ps", "2", "--workers", "2")
    assert code == 0, said
    status = far.status()
    assert status is not None
    for task in status.tasks:
        host = next(host for host in hosts.hosts if host.name == task.host)
        port = (task.address or "").rpartition(":")[2]
        assert _accepts(host, host.address, port)
        assert not _accepts(host, "127.0.0.1", port)
    assert far.run("down")[0] == 0


def test_a_live_run_keeps_its_hosts(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT, jobs={"worker": 2})
    assert far.run("up", "-d", "-H", "h1,h2", deadline=120)[0] == 0
    code, said = far.run("up", "-H", "h1,h3")
    assert code == 2
    assert "hosts: h3: bed is up, on h1, h2, and a live run keeps its hosts" in said
    assert far.run("up", "-H", "h1,h2")[0] == 0
    assert far.run("down")[0] == 0


def _accepts(host: BedHost, address: str, port: str) -> bool:
    command = host.command("timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
    return subprocess.run(command, capture_output=True).returncode == 0


def test_a_second_up_changes_only_what_differs(far: CommandBed, hosts: HostBed) -> None:
    _file(far, hosts, PATIENT)
    assert far.run("up", "-d", deadline=120)[0] == 0
    before = far.wait_for("worker:0", "running")
    _file(far, hosts, PATIENT, jobs={"worker": {"count": 4, "task_env": {"2": {"LEVEL": "debug"}}}})
    code, said = far.run("up", deadline=120)
    assert code == 0, said
    assert "~ worker:2 (env.LEVEL)" in said
    far.wait_for("worker:2", "running", attempt=2)
    after = far.wait_for("worker:0", "running")
    assert (after.pid, after.attempt) == (before.pid, before.attempt)
    assert far.run("down")[0] == 0
