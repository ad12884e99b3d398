"""Hosts that go away while something there is waited for."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from beds.hosts import host_bed
from beds.processes import words_of
from psclust.errors import HostError
from psclust.reach.python.host_python import start_python
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.run_to_end import run
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.spec.cluster import Host
from psclust.testing.wait import PATIENCE_S, wait_until

pytestmark = pytest.mark.process


def test_a_host_that_goes_away_ends_what_waits_for_it(tmp_path: Path) -> None:
    with host_bed(tmp_path / "hosts", 1) as bed, SshHosts([Host("h1")], home=bed.home) as ssh:
        caught: list[BaseException] = []

        def wait() -> None:
            try:
                run(ssh, "h1", "sleep 1000")
            except HostError as error:
                caught.append(error)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        wait_until(
            lambda: any("1000" in words_of(process) for process in bed[0].processes()),
            what="the command",
        )
        bed[0].switch_off()
        waiting.join(PATIENCE_S)
        assert [str(error) for error in caught] == [
            "h1: the SSH connection was lost while `sleep 1000` ran there. Is the host still there?"
        ]
        with pytest.raises(HostError, match="h1: the SSH connection is lost"):
            run(ssh, "h1", "true")


def test_a_host_that_goes_away_while_it_is_looked_at_is_no_line_of_shell(tmp_path: Path) -> None:
    with (
        host_bed(tmp_path / "hosts", 1) as bed,
        SshHosts([Host("h1")], home=bed.home) as ssh,
        HostPythons(ssh, [sys.executable]) as pythons,
    ):
        python = pythons.on("h1")
        bed[0].cut()
        with pytest.raises(HostError) as late:
            python.ask(
                "facts",
                {"package": "", "digest": "", "files": {}, "connection_variables": []},
                timeout_s=0.5,
            )
        bed[0].heal()
        bed[0].switch_off()
        with pytest.raises(HostError) as lost:
            python.answer(60)
        with pytest.raises(HostError) as closed:
            start_python(ssh, "h1", [sys.executable])
    assert (
        str(late.value)
        == "h1: no answer in time while psclust looked at the host and prepared it. "
        "Is the host still there, or is it very busy?"
    )
    assert (
        str(lost.value)
        == "h1: the SSH connection was lost while psclust looked at the host and prepared it. "
        "Is the host still there?"
    )
    assert str(closed.value) == "h1: the SSH connection is lost."
