"""Real hosts by SSH: reached as OpenSSH would reach them, all at once, and everything that goes
wrong said at once with its remedy."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from ssh_homes import close_to, home_like, launcher_address, log_ins, open_to_all

from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.sshd import find_program
from psclust.errors import HostError, StartError
from psclust.reach.fan_out import on_each
from psclust.reach.run_to_end import run
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.reach.ssh.tunnel import SshTunnel
from psclust.spec.cluster import Host
from psclust.testing.wait import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

isolated = pytest.mark.skipif(os.geteuid() != 0, reason="hosts that can be cut off need root")


bed = hosts_of_file(4)


def hosts(*names: str) -> list[Host]:
    return [Host(name) for name in names]


def failures(home: Path, *wanted: Host, **options: float) -> list[str]:
    with (
        pytest.raises(StartError) as caught,
        SshHosts(wanted, home=home, **options),  # type: ignore[arg-type]
    ):
        pass
    assert caught.value.exit_code == 3
    return str(caught.value).splitlines()


def test_every_host_is_reached_once_and_answers(bed: HostBed) -> None:
    before = [log_ins(host) for host in bed.hosts]
    seen: list[tuple[int, int]] = []
    with SshHosts(
        hosts("h1", "h2", "h3", "h4"),
        home=bed.home,
        progress=lambda done, of, name: seen.append((done, of)),
    ) as ssh:
        results = on_each(
            ssh.names, lambda host: run(ssh, host, "echo $SSH_CONNECTION; echo problem >&2; exit 3")
        )
        assert {
            name: (result.code, result.stderr) for name, result in results.items()
        } == dict.fromkeys(ssh.names, (3, b"problem\n"))
        assert [result.text.split()[2] for result in results.values()] == [
            host.address for host in bed.hosts
        ]
        assert [ssh.address_of(name) for name in ssh.names] == [host.address for host in bed.hosts]
        assert run(ssh, "h2", "rev", stdin=b"abc\n" * 100_000).stdout == b"cba\n" * 100_000
        assert run(ssh, "h3", "true", stdin=b"not read" * 1_000_000).code == 0
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [log_ins(host) for host in bed.hosts] == [count + 1 for count in before]


@isolated
def test_everything_that_is_wrong_with_hosts_is_said_at_once_with_its_cure(
    bed: HostBed, tmp_path: Path
) -> None:
    real = bed.home.joinpath(".ssh", "known_hosts").read_text()
    wrong = tmp_path / "other"
    subprocess.run(
        [find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(wrong)], check=True
    )
    changed = " ".join(wrong.with_suffix(".pub").read_text().split()[:2])
    kept = [
        line
        for line in real.splitlines()
        if not re.match(rf"(h[23]|{bed[1].address}|{bed[2].address}) ", line)
    ]
    home = home_like(
        bed,
        tmp_path / "home",
        before="ConnectTimeout 1\n",
        known_hosts="\n".join([*kept, f"{bed[2].address} {changed}", ""]),
    )
    bed[3].cut()
    try:
        lines = failures(
            home,
            Host("h1", user="nobody-here"),
            *hosts("h2", "h3", "h4", "nowhere"),
            Host(bed[0].address, port=2),
        )
    finally:
        bed[3].heal()
    known = home / ".ssh" / "known_hosts"
    expected = [
        (
            "h1: user nobody-here was not let in (tried .*id_ed25519). "
            "Check that `ssh nobody-here@h1` works without a question: .*"
        ),
        (
            "h2: its host key (ssh-ed25519 SHA256:.*) is not known. "
            f"Log in once with `ssh h2` .* ssh-keyscan {bed[1].address} >> {known}"
        ),
        (
            "h3: its host key has CHANGED: "
            f"it is ssh-ed25519 SHA256:.*, and {known}:{len(kept) + 1} says otherwise. "
            f".*ssh-keygen -R '{bed[2].address}' -f {known}. .*"
        ),
        (
            f"h4: no answer from {bed[3].address}:22 in 1 s. Is it switched on, "
            "and does its firewall let SSH in?"
        ),
        (
            "nowhere: the name nowhere is not known (.*). Check its spelling, "
            "or give it a HostName in ~/.ssh/config."
        ),
        (
            f"{bed[0].address}: {bed[0].address}:2 refused the connection. "
            "Start sshd there, or name the port it listens on."
        ),
    ]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(re.sub(r"[()?]", r"\\\g<0>", pattern), line), line


def test_the_cure_for_an_unknown_host_key_cures_it(bed: HostBed, tmp_path: Path) -> None:
    home = home_like(bed, tmp_path / "home", known_hosts="")
    (line,) = failures(home, Host("h1"))
    scan = line.rpartition(": ")[2]
    subprocess.run(["sh", "-c", scan], check=True, capture_output=True)
    with SshHosts(hosts("h1"), home=home) as ssh:
        assert run(ssh, "h1", "true").code == 0


def test_settings_that_are_for_people_do_no_harm(bed: HostBed, tmp_path: Path) -> None:
    before = (
        "ForwardAgent $SSH_AUTH_SOCK\nControlMaster auto\nControlPath ~/.ssh/%C\nRequestTTY yes\n"
        "AddKeysToAgent yes\nBatchMode no\n"
    )
    with SshHosts(hosts("h1"), home=home_like(bed, tmp_path / "home", before=before)) as ssh:
        assert run(ssh, "h1", "test -t 0 || echo no terminal", stdin=b"").stdout == b"no terminal\n"


def test_hosts_that_can_be_reached_are_used_where_that_is_enough(bed: HostBed) -> None:
    with SshHosts([Host("nowhere"), Host("h1")], home=bed.home, partial=True) as ssh:
        assert ssh.names == ("h1",)
        assert list(ssh.failures) == ["nowhere"]
        assert run(ssh, "h1", "echo here").stdout == b"here\n"


def test_more_log_ins_than_an_sshd_takes_at_once_get_through(bed: HostBed, tmp_path: Path) -> None:
    names = [f"same{number}" for number in range(24)]
    home = home_like(
        bed,
        tmp_path / "home",
        after=f"Host same*\n  HostName {bed[0].address}\n  Port {bed[0].port}\n",
    )
    with SshHosts(hosts(*names), home=home) as ssh:
        assert ssh.names == tuple(names)


def test_commands_that_end_at_once_do_not_end_the_connection(bed: HostBed) -> None:
    with SshHosts(hosts("h1"), home=bed.home) as ssh:
        codes = on_each(
            ["a", "b", "c", "d"],
            lambda _: [run(ssh, "h1", "exit 3", stdin=b"").code for _ in range(60)],
        )
    assert codes == dict.fromkeys("abcd", [3] * 60)


@isolated
def test_a_host_that_hangs_up_at_first_is_tried_again(bed: HostBed, tmp_path: Path) -> None:
    turned_away = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def keep_door() -> None:
            for turn in range(3):
                visitor, _ = door.accept()
                if turn < 2:
                    turned_away.append(turn)
                    visitor.close()
            with socket.create_connection((bed[0].address, bed[0].port)) as inside, visitor:
                back = threading.Thread(target=pipe, args=(inside, visitor), daemon=True)
                back.start()
                pipe(visitor, inside)

        threading.Thread(target=keep_door, daemon=True).start()
        before = (
            f"Host door\n  HostName 127.0.0.1\n  Port {door.getsockname()[1]}\n"
            f"  HostKeyAlias {bed[0].address}\n"
        )
        with SshHosts(hosts("door"), home=home_like(bed, tmp_path / "home", before=before)) as ssh:
            assert run(ssh, "door", "hostname").text == "h1\n"
    assert turned_away == [0, 1]


def pipe(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)


@isolated
def test_hosts_behind_a_jump_host_share_one_log_in_there(bed: HostBed, tmp_path: Path) -> None:
    home = home_like(
        bed, tmp_path / "home", before="ConnectTimeout 1\nHost h2 h3\n  ProxyJump h1\n"
    )
    behind = bed.hosts[1:3]
    for host in behind:
        close_to(host, launcher_address(bed))
    try:
        assert len(failures(bed.home, *hosts("h2", "h3"), deadline_s=1.0)) == 2
        before = log_ins(bed[0])
        with SshHosts(hosts("h2", "h3"), home=home) as ssh:
            assert on_each(ssh.names, lambda host: run(ssh, host, "hostname").text) == {
                "h2": "h2\n",
                "h3": "h3\n",
            }
            assert ssh.address_of("h2") is None
        assert log_ins(bed[0]) == before + 1
        close_to(bed[3], bed[0].address)
        home.joinpath(".ssh", "config").write_text(
            "Host h4\n  ProxyJump h1\n" + home.joinpath(".ssh", "config").read_text()
        )
        (line,) = failures(home, Host("h4"), deadline_s=4.0)
        assert (
            line
            == f"h4: its jump host h1 cannot reach {bed[3].address}:22 (no answer). Try: ssh h4"
        )
    finally:
        for host in bed.hosts[1:]:
            with suppress(subprocess.CalledProcessError):
                open_to_all(host)


def test_a_chain_of_jump_hosts_is_passed_in_its_order(bed: HostBed, tmp_path: Path) -> None:
    home = home_like(bed, tmp_path / "home", before="Host h3\n  ProxyJump h1,h2\n")
    with SshHosts(hosts("h3"), home=home) as ssh:
        came_from = run(ssh, "h3", "echo $SSH_CONNECTION").text.split()[0]
    assert came_from == (bed[1].address if bed[1].isolated else "127.0.0.1")


def test_a_jump_host_that_fails_is_named_for_each_host_behind_it(
    bed: HostBed, tmp_path: Path
) -> None:
    home = home_like(bed, tmp_path / "home", before="Host h2 h3\n  ProxyJump nobody-here@h1\n")
    lines = failures(home, *hosts("h2", "h3"))
    assert [line[:47] for line in lines] == [
        f"{name}: not reached, its jump host failed: h1: user" for name in ("h2", "h3")
    ]


def test_a_proxy_command_is_the_way_where_there_is_one(bed: HostBed, tmp_path: Path) -> None:
    home = home_like(bed, tmp_path / "home")
    config = home / ".ssh" / "config"
    config.write_text(
        f"Host h2\n  ProxyCommand ssh -F {config} -W %h:%p h1\nHost h3\n"
        f"  ProxyCommand echo no way >&2\n{config.read_text()}"
    )
    with SshHosts(hosts("h2"), home=home) as ssh:
        assert run(ssh, "h2", "echo here").stdout == b"here\n"
        assert ssh.address_of("h2") is None
    assert failures(home, Host("h3")) == ["h3: its ProxyCommand failed (no way). Try: ssh h3"]


def test_a_key_with_a_passphrase_comes_from_the_agent_and_from_nowhere_else(
    bed: HostBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_like(bed, tmp_path / "home")
    config = home / ".ssh" / "config"
    original = re.search(r"IdentityFile (\S+)", config.read_text())
    assert original is not None
    locked = home / ".ssh" / "locked"
    for suffix in ("", ".pub"):
        Path(f"{locked}{suffix}").write_bytes(Path(f"{original[1]}{suffix}").read_bytes())
    locked.chmod(0o600)
    subprocess.run(
        [find_program("ssh-keygen"), "-q", "-p", "-P", "", "-N", "secret", "-f", str(locked)],
        check=True,
        capture_output=True,
    )
    config.write_text(config.read_text().replace(original[1], str(locked)))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (line,) = failures(home, Host("h1"))
    assert line.endswith(
        f"(there was no key to try). {locked} has a passphrase, "
        f"which only ssh-agent can give: ssh-add {locked}"
    )
    place = tmp_path / "agent"
    agent = subprocess.Popen(
        [find_program("ssh-agent"), "-D", "-a", str(place)], stdout=subprocess.DEVNULL
    )
    try:
        wait_until(place.exists, what="the agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
        subprocess.run([find_program("ssh-add"), "-q", original[1]], check=True)
        with SshHosts(hosts("h1"), home=home) as ssh:
            assert run(ssh, "h1", "true").code == 0
    finally:
        agent.terminate()
        agent.wait()


def test_a_command_that_takes_too_long_is_an_error_and_the_connection_stays(bed: HostBed) -> None:
    with SshHosts(hosts("h1"), home=bed.home) as ssh:
        with pytest.raises(HostError, match="h1: `sleep 1000` did not end in time"):
            run(ssh, "h1", "sleep 1000", timeout_s=0.2)
        assert run(ssh, "h1", "echo here").stdout == b"here\n"


def test_a_tunnel_carries_both_ways_until_the_end(bed: HostBed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    tunnel = SshTunnel(Host("h1"), (bed[0].address, bed[0].port), bed.home)
    host, _, port = tunnel.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as there:
        there.sendall(b"SSH-2.0-test\r\n")
        assert there.recv(4) == b"SSH-"
    nowhere = SshTunnel(Host("h1"), ("127.0.0.1", closed), bed.home)
    with socket.create_connection(
        ("127.0.0.1", int(nowhere.address.partition(":")[2])), timeout=PATIENCE_S
    ) as there:
        assert there.recv(4) == b""
    tunnel.close()
    nowhere.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def test_ctrl_c_while_a_host_does_not_answer_ends_at_once(bed: HostBed) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom psclust.spec.cluster import Host\n"
        "from psclust.reach.ssh.ssh_hosts import SshHosts\n"
        "said = lambda done, of, name: print(name, flush=True)\n"
        "with SshHosts([Host('h1'), Host('h2')], home=Path(sys.argv[1]), progress=said): pass\n"
    )
    bed[1].cut()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(bed.home)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"h1\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        bed[1].heal()
    assert said.splitlines()[-1] == b"KeyboardInterrupt"
