"""A user's systemd on a test host, as a log-in finds it, for `systemctl --user`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beds.hosts import BedHost
from beds.sshd import find_program
from psclust.testing.wait import wait_until

# $1: a control group for it. The directory is what tells programs that systemd is at work.
_START = """
set -e
mkdir -p "/sys/fs/cgroup/$1" /run/systemd/system
mkdir -p -m 700 /run/user/0
echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
export HOME=/run/home XDG_RUNTIME_DIR=/run/user/0
setsid /lib/systemd/systemd --user --unit=basic.target </dev/null >/run/user/0/log 2>&1 &
"""
# It answers systemctl, and asks for no more.
_LOGINCTL = '#!/bin/sh\necho "$@" >>/run/loginctl\n'


@contextmanager
def user_manager(host: BedHost) -> Iterator[None]:
    """Until the end of the block. `loginctl`, which would ask a machine's logind, only writes into
    /run/loginctl there."""
    assert host.network is not None
    find_program("systemctl")
    group = host.network.namespace(host.name)
    try:
        host.run("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")
    except subprocess.CalledProcessError as error:
        pytest.skip(
            f"a systemd needs control groups, and none can be mounted here: {error.stderr.strip()}"
        )
    host.run("sh", "-ec", _START, "start", group)
    (host.home / ".bashrc").write_text("PATH=$HOME/bin:$PATH\n", encoding="utf-8")
    (host.home / "bin").mkdir()
    (host.home / "bin" / "loginctl").write_text(_LOGINCTL, encoding="utf-8")
    (host.home / "bin" / "loginctl").chmod(0o755)
    wait_until(
        lambda: systemctl(host, "is-system-running") in ("running", "degraded"),
        what=f"{host.name}'s systemd",
    )
    yield
    systemctl(host, "exit")
    wait_until(
        lambda: not any("systemd" in line for line in host.programs()),
        what=f"the end of {host.name}'s systemd",
    )
    host.run("find", f"/sys/fs/cgroup/{group}", "-depth", "-type", "d", "-exec", "rmdir", "{}", ";")


def systemctl(host: BedHost, *arguments: str) -> str:
    """What it says, whatever its exit code is."""
    command = host.command("env", "XDG_RUNTIME_DIR=/run/user/0", "systemctl", "--user", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout.strip()
