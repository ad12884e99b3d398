"""`fab -r deploy` on hosts without a network installs, updates and removes psclust, and changes
nothing else."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import pytest
from user_manager import systemctl, user_manager

from beds.command import typed
from beds.hosts import BedHost, HostBed, host_bed
from beds.processes import words_of
from psclust.reach.python.host_facts import gather_facts
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.spec.cluster import Host
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts with a home of their own need root"),
]

ROOT = Path(__file__).parents[2]
FOLDER = "/run/home/.local/share/psclust"
Fab = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
    """Two hosts with a systemd, whose Python has, beside its own, what this one has: they cannot
    fetch anything."""
    with host_bed(tmp_path_factory.mktemp("fab") / "hosts", 2) as bed, ExitStack() as stack:
        for host in bed.hosts:
            stack.enter_context(user_manager(host))
            site = (
                host.home
                / ".local"
                / "lib"
                / f"python{sys.version_info[0]}.{sys.version_info[1]}"
                / "site-packages"
            )
            site.mkdir(parents=True)
            (site / "own.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        yield bed


@pytest.fixture(scope="module")
def fab(bed: HostBed) -> Fab:
    """Exit code and output of `fab -r deploy`."""

    def fab(*arguments: str) -> tuple[int, str]:
        command = [
            str(Path(sys.executable).with_name("fab")),
            "-r",
            str(ROOT / "deploy"),
            *arguments,
        ]
        environ = {**os.environ, "HOME": str(bed.home), "PIP_NO_BUILD_ISOLATION": "0"}
        done = subprocess.run(
            command,
            env=environ,
            cwd=bed.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout

    return fab


@pytest.fixture(scope="module")
def before(bed: HostBed) -> dict[str, set[str]]:
    """What the hosts' homes held before anything was installed."""
    return {host.name: files(host) for host in bed.hosts}


@pytest.fixture(scope="module")
def installed(bed: HostBed, fab: Fab, before: dict[str, set[str]]) -> str:
    """What `install` said of the hosts."""
    code, said = fab("-H", "h1,h2", "install", "--standing", "--python", sys.executable)
    assert code == 0, said
    return said


def files(host: BedHost) -> set[str]:
    return {
        str(path.relative_to(host.home))
        for path in host.home.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_installed_at_once_on_all_hosts_it_is_the_psclust_of_this_checkout(
    bed: HostBed, installed: str
) -> None:
    for host in bed.hosts:
        assert f"{host.name}: psclust 0.1.0, TensorFlow 2.21" in installed
    with SshHosts([Host("h1"), Host("h2")], home=bed.home) as ssh:
        for python in gather_facts(ssh, "~/.local/share/psclust/bin/python").values():
            assert python.executable == f"{FOLDER}/bin/python"
            # Found without being told where, and the very same: nothing would be shipped.
            assert python.psclust == ""
    for host in bed.hosts:
        assert list((package(host) / "native").glob("_server_shim*.so"))


def package(host: BedHost) -> Path:
    """psclust as it is installed there, seen from outside."""
    (found,) = (host.home / ".local" / "share" / "psclust" / "lib").glob(
        "python*/site-packages/psclust"
    )
    return found


def test_the_standing_agent_is_a_service_of_its_user_that_outlives_log_outs(
    bed: HostBed, installed: str
) -> None:
    for host in bed.hosts:
        assert (
            systemctl(host, "is-active", "psclust-agent"),
            systemctl(host, "is-enabled", "psclust-agent"),
        ) == ("active", "enabled")
        assert host.run("cat", "/run/loginctl") == "enable-linger\n"
        assert standing(host).cmdline() == [
            f"{FOLDER}/bin/python",
            "-m",
            "psclust.agent",
            "--standing",
        ]
        wait_until(partial(stands, host), what="its socket")


def stands(host: BedHost) -> bool:
    """Whether a standing agent listens."""
    found = [process.pid for process in host.processes() if "--standing" in words_of(process)]
    with socket.socket(socket.AF_UNIX) as probe:
        return (
            bool(found)
            and probe.connect_ex(f"/proc/{found[0]}/root/run/user/0/psclust/agent-1.sock") == 0
        )


def standing(host: BedHost) -> psutil.Process:
    """The standing agent."""
    return next(process for process in host.processes() if "--standing" in words_of(process))


def test_what_a_log_in_starts_goes_with_the_service_and_the_service_comes_back(
    bed: HostBed, installed: str, fab: Fab
) -> None:
    host, service = bed[0], standing(bed[0])
    # Of another installation.
    environ = ["XDG_RUNTIME_DIR=/run/user/0", f"PYTHONPATH={ROOT}"]
    log_in = subprocess.Popen(
        host.command("env", *environ, sys.executable, "-m", "psclust.agent"), stdin=subprocess.PIPE
    )
    child = wait_until(
        lambda: next(iter(service.children()), None), what="an agent that waits for its request"
    )
    assert child is not None
    code, said = fab("-H", "h1", "remove")
    assert (code, "is in use by a cluster" in said) == (3, True)
    service.kill()
    assert log_in.wait(300) == 3
    log_in.communicate()
    wait_until(lambda: not child.is_running(), what="the end of what the service has started")
    wait_until(lambda: stands(host), what="another standing agent")


@pytest.mark.long
def test_an_update_brings_back_what_has_changed_and_leaves_the_rest_alone(
    bed: HostBed, installed: str, fab: Fab
) -> None:
    module = package(bed[0]) / "errors.py"
    module.write_text("broken")
    services = [standing(host) for host in bed.hosts]
    kept = bed[0].run("stat", "-c", "%i %Y", f"{FOLDER}/pyvenv.cfg")
    code, said = fab("-H", "h1", "update")
    assert code == 0, said
    assert module.read_text() == (ROOT / "psclust" / "errors.py").read_text()
    assert bed[0].run("stat", "-c", "%i %Y", f"{FOLDER}/pyvenv.cfg") == kept
    assert [
        standing(host) == service for host, service in zip(bed.hosts, services, strict=True)
    ] == [False, True]


def test_nothing_is_changed_under_a_cluster_that_runs(
    bed: HostBed, installed: str, fab: Fab
) -> None:
    there = files(bed[0])
    python = f"{FOLDER}/bin/python"
    bed[0].run(
        "sh",
        "-c",
        f"setsid {python} -c 'import time; time.sleep(1000)' >/dev/null 2>&1 </dev/null &",
    )
    task = wait_until(
        lambda: next(
            (one for one in bed[0].processes() if words_of(one)[:2] == [python, "-c"]), None
        ),
        what="the task",
    )
    assert task is not None
    try:
        for verb in (("update", "--source", "psclust"), ("remove",)):
            code, said = fab("-H", "h1", *verb)
            assert code == 3
            assert f"h1: {FOLDER} is in use by a cluster (process " in said
        assert files(bed[0]) == there
    finally:
        task.kill()
        task.wait(300)


def test_all_that_fails_is_told_together_and_a_first_try_that_fails_leaves_nothing(
    bed: HostBed, fab: Fab, tmp_path: Path
) -> None:
    install = "-H h1,h2 install --path ~/other"
    code, said = fab(*typed(f"{install} --python /no/python --source psclust"))
    assert code == 3
    assert said.splitlines() == [
        f"h{number}: there is no /no/python; choose another one with --python." for number in (1, 2)
    ]
    broken = tmp_path / "psclust-0.1.0-py3-none-any.whl"
    broken.write_text("no wheel")
    code, said = fab(*typed(f"{install} --python {sys.executable} --source {broken}"))
    assert code == 3
    assert re.fullmatch(r"h1: ERROR: .* is invalid.*\nh2: ERROR: .* is invalid.*\n", said)
    assert not any((host.home / "other").exists() for host in bed.hosts)


def test_a_folder_that_it_has_not_made_is_left_alone(bed: HostBed, fab: Fab) -> None:
    mine = bed[0].home / "mine" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("years of work")
    for arguments in (("install", "--source", "psclust"), ("remove",)):
        code, said = fab("-H", "h1", *arguments, "--path", "~/mine")
        assert code == 3
        assert (
            said == "h1: /run/home/mine exists and was not created by psclust; "
            "choose another one with --path.\n"
        )
    assert mine.read_text() == "years of work"
    mine.unlink()


def test_without_hosts_or_with_options_of_fabs_own_it_says_what_to_write(fab: Fab) -> None:
    assert fab("install") == (2, "no hosts are given; write fab -r deploy -H a,b install.\n")
    code, said = fab("-H", "h1", "-i", "key", "install")
    assert code == 2
    assert "set it in ~/.ssh/config" in said


def test_removed_nothing_is_left_and_removed_again_it_says_nothing(
    bed: HostBed, installed: str, fab: Fab, before: dict[str, set[str]]
) -> None:
    assert fab("-H", "h1,h2", "remove") == (0, "")
    assert [systemctl(host, "is-active", "psclust-agent") for host in bed.hosts] == [
        "inactive",
        "inactive",
    ]
    assert not [line for host in bed.hosts for line in host.programs() if "psclust" in line]
    assert {host.name: files(host) for host in bed.hosts} == before
    assert fab("-H", "h1,h2", "remove") == (0, "")
    code, said = fab("-H", "h1,h2", "update", "--source", "psclust")
    assert code == 3
    assert said.count(f"psclust is not installed in {FOLDER}; install it first.") == 2
