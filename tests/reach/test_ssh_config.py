"""What is read of `~/.ssh/config`, and what of it gives way to the cluster file."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.errors import StartError
from psclust.reach.ssh.ssh_config import HostSettings, SshConfiguration
from psclust.spec.cluster import Host


def settings(home: Path, text: str, host: Host, **files: str) -> HostSettings:
    folder = home / ".ssh"
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text(text)
    for name, content in files.items():
        (folder / name).write_text(content)
    return SshConfiguration(home).of(host)


def test_without_a_configuration_a_name_is_an_address(tmp_path: Path) -> None:
    found = SshConfiguration(tmp_path).of(Host("node1"))
    assert (found.address, found.port, found.jumps, found.proxy_command, found.key_alias) == (
        "node1",
        22,
        (),
        None,
        None,
    )
    assert found.known_hosts[0] == tmp_path / ".ssh" / "known_hosts"


def test_the_cluster_file_wins_over_the_configuration_also_in_commands(tmp_path: Path) -> None:
    text = "Host node*\n  HostName 10.0.0.1\n  Port 2222\n  User me\n  ProxyCommand dial %r %h %p\n"
    found = settings(tmp_path, text, Host("node1"))
    assert (found.address, found.port, found.user, found.proxy_command) == (
        "10.0.0.1",
        2222,
        "me",
        "dial me 10.0.0.1 2222",
    )
    found = settings(tmp_path, text, Host("node1", user="you", port=22))
    assert (found.port, found.user, found.proxy_command) == (22, "you", "dial you 10.0.0.1 22")


def test_files_that_are_included_count_where_they_stand(tmp_path: Path) -> None:
    text = "Host node1\n  User me\n  Include more_*\n  Port 2222\nInclude missing\n"
    found = settings(
        tmp_path, text, Host("node1"), more_b="User late\n", more_a="Host other\n  Port 1\n"
    )
    assert (found.user, found.port) == ("me", 2222)
    found = settings(
        tmp_path, "Include ~/.ssh/more\n", Host("node1"), more="Host node1\n  HostName 10.0.0.9\n"
    )
    assert found.address == "10.0.0.9"


def test_a_file_that_includes_itself_is_read_and_not_for_ever(tmp_path: Path) -> None:
    assert settings(tmp_path, "Host node1\n  User me\nInclude config\n", Host("node1")).user == "me"


@pytest.mark.parametrize(
    ("value", "jumps"),
    [
        ("gate", ("gate",)),
        ("a, user@b:2222", ("a", "user@b:2222")),
        ("none", ()),
        ("ssh://gate:2022", ("gate:2022",)),
    ],
)
def test_jump_hosts_are_passed_in_their_order(
    value: str, jumps: tuple[str, ...], tmp_path: Path
) -> None:
    assert settings(tmp_path, f"ProxyJump {value}\n", Host("node1")).jumps == jumps


def test_a_rule_for_all_hosts_does_not_send_the_jump_host_through_itself(tmp_path: Path) -> None:
    text = "Host gate\n  HostName 10.0.0.1\nHost *\n  ProxyJump me@gate:2222\n"
    assert settings(tmp_path, text, Host("node1")).jumps == ("me@gate:2222",)
    assert settings(tmp_path, text, Host("gate")).jumps == ()


def test_known_hosts_are_looked_for_where_the_configuration_says(tmp_path: Path) -> None:
    text = "UserKnownHostsFile ~/mine %d/ours\nGlobalKnownHostsFile none\nHostKeyAlias machine\n"
    found = settings(tmp_path, text, Host("node1"))
    assert found.known_hosts == (tmp_path / "mine", tmp_path / "ours")
    assert found.key_alias == "machine"


def test_a_configuration_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"node1: .*/\.ssh/config: not understood .*ssh -G node1"):
        settings(tmp_path, "Port many\n", Host("node1"))
