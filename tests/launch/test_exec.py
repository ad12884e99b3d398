"""`psclust exec` on real hosts."""

from __future__ import annotations

import json

import pytest

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.processes import words_of
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


hosts = hosts_of_file(3)


def test_a_command_runs_on_every_host_and_its_results_are_a_table(
    apart: CommandBed, hosts: HostBed
) -> None:
    said = apart.done(
        "exec", "-H", hosts.names, "--", "echo $SSH_CONNECTION | cut -d ' ' -f 3,4; echo note >&2"
    )
    header, *rows = [line.split() for line in said.splitlines()]
    assert header == ["HOST", "EXIT", "TIME", "LAST", "LINE"]
    assert [(row[0], row[1], row[-2:]) for row in rows] == [
        (host.name, "0", [host.address, str(host.port)]) for host in hosts.hosts
    ]


def test_words_arrive_as_they_stand(apart: CommandBed) -> None:
    said = apart.done(
        "exec", "--json", "-H", "h1", "--", "printf", "%s|", "two words", "$HOME", "*", "-x"
    )
    assert json.loads(said)[0]["stdout"] == "two words|$HOME|*|-x|"


def test_one_failure_is_exit_code_1_and_hides_nobody_elses_result(
    apart: CommandBed, hosts: HostBed
) -> None:
    line = f"case $SSH_CONNECTION in *' {hosts[1].address} {hosts[1].port}') exit 7; esac"
    said = apart.fails(1, "exec", "--json", "-H", "h1,h2,nowhere,h3", "--timeout", "20", "--", line)
    results = {result["host"]: result for result in json.loads(said)}
    assert {host: result["code"] for host, result in results.items()} == {
        "h1": 0,
        "h2": 7,
        "nowhere": None,
        "h3": 0,
    }
    assert results["nowhere"]["error"].startswith("the name nowhere is not known")
    _, said = apart.run("exec", "-H", "h1,nowhere", "--", "echo here")
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["h1", "0"], ["nowhere", "-"]]


def test_all_that_was_said_is_shown_under_its_host(apart: CommandBed) -> None:
    said = apart.done(
        "exec", "--all-output", "-H", "h1,h2", "--", "echo one; echo two; echo three >&2"
    )
    assert said.splitlines() == [
        f"{host} | {word}" for host in ("h1", "h2") for word in ("one", "two", "three")
    ]


def test_a_host_that_takes_too_long_is_given_up(apart: CommandBed) -> None:
    said = apart.fails(1, "exec", "-H", "h1", "--timeout", "0.3", "--", "sleep 60")
    assert "did not end in time." in said


def test_ctrl_c_ends_the_command_everywhere_with_what_it_started(
    apart: CommandBed, hosts: HostBed
) -> None:
    running = apart.start("exec", "-H", hosts.names, "--", "sleep 4711 & sleep 4711; wait")

    def count() -> int:
        return sum(
            "4711" in words_of(process) for host in hosts.hosts for process in host.processes()
        )

    wait_until(lambda: count() >= 2 * len(hosts.hosts), what="the commands")
    running.interrupt()
    assert running.wait(300) == 130
    wait_until(lambda: count() == 0, what="their end")


def test_hosts_come_from_the_cluster_file_and_flags_win(apart: CommandBed) -> None:
    apart.write("psclust.yaml", "hosts: h1, h2\nssh: {parallel: 1}\n")
    _, said = apart.run("exec", "--", "true")
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["h1", "h2"]
    _, said = apart.run("exec", "-H", "h3:1", "--", "true")
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["h3"]
    apart.write("hosts.txt", "h2 slots=4\n")
    _, said = apart.run("exec", "--hostfile", "hosts.txt", "--", "true")
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["h2"]


def test_without_a_host_or_a_command_there_is_nothing_to_do(apart: CommandBed) -> None:
    said = apart.fails(2, "exec", "--", "true")
    assert said == "psclust: no host is named; write -H a,b, or `hosts:` in the cluster file.\n"
    assert apart.run("exec", "-H", "h1")[0] == 2
