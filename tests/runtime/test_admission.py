"""Whom the preloaded library lets connect to a server: by address, and on one machine by user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_server_shim import shim  # noqa: F401 - a fixture

from beds.namespaces import Network, separate
from psclust.transport.strangers import Strangers, read_strangers

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: run it as root"),
]

NOBODY = 65534

# As TensorFlow's gRPC accepts: the shim knows it by the library's name.
TAKE = """
#define _GNU_SOURCE
#include <sys/socket.h>
int take(int listener) { return accept4(listener, 0, 0, SOCK_CLOEXEC); }
"""

# As `user` accepts one connection from a child with the user id `uid`, in network namespace `space`
# if there is one; prints whether it may stay.
SERVE = """
import ctypes, os, select, socket, sys, time
library, own, source, dialled, user, uid, ends, space = sys.argv[1:]
libc = ctypes.CDLL(None)
take = ctypes.CDLL(library).take
listener = socket.create_server((own, 0), family=10 if ":" in own else 2)
listener.setblocking(False)
done, tell = os.pipe()
child = os.fork()
if child == 0:
    if space:
        assert libc.setns(os.open("/run/netns/" + space, os.O_RDONLY), 0) == 0
    os.setuid(int(uid))
    client = socket.socket(10 if ":" in source else 2)
    client.bind((source, 0))
    client.connect((dialled, listener.getsockname()[1]))
    client.sendall(b"run this")
    if ends == "closes":
        client.close()
    os.write(tell, b"x")
    select.select([], [], [])
os.close(tell)
assert os.read(done, 1)
select.select([listener], [], [])
os.seteuid(int(user))
print(take(listener.fileno()) >= 0, flush=True)
os.seteuid(0)
os.kill(child, 9)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    (folder / "take.c").write_text(TAKE)
    made = folder / "libtensorflow_take.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "take.c"], check=True)
    return made


class Server:
    """Runs SERVE with the shim."""

    def __init__(self, shim: Path, library: Path, folder: Path) -> None:  # noqa: F811
        self._env = {**os.environ, "LD_PRELOAD": str(shim)}
        self._library = library
        self.counted = folder / "strangers"
        self.said = ""

    def admits(
        self,
        admit: str | None,
        *,
        source: str = "127.0.0.1",
        own: str = "127.0.0.1",
        user: int = 0,
        uid: int = NOBODY,
        ends: str = "stays",
        space: str = "",
        within: tuple[str, ...] = (),
    ) -> bool:
        """Whether, run by `user`, it lets in a process of user `uid` that connects from `source`
        in the network namespace `space`. within: what runs the server."""
        env = {**self._env, "PSCLUST_STRANGERS": str(self.counted)}
        if admit is not None:
            env["PSCLUST_ADMIT"] = admit
        dialled = f"::ffff:{own}" if source.startswith("::ffff:") else own
        words = [str(self._library), own, source, dialled, str(user), str(uid), ends, space]
        argv = [*within, sys.executable, "-S", "-c", SERVE, *words]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        self.said = done.stderr
        return done.stdout.startswith("True")

    def strangers(self) -> Strangers:
        return read_strangers(self.counted)


@pytest.fixture
def server(shim: Path, library: Path, tmp_path: Path) -> Server:  # noqa: F811
    return Server(shim, library, tmp_path)


@pytest.mark.parametrize("own", ["127.0.0.1", "::1"])
def test_on_one_machine_the_user_counts(server: Server, own: str) -> None:
    assert server.admits("", own=own, source=own, uid=0)
    assert server.strangers() == Strangers()
    assert not server.admits("", own=own, source=own)
    assert server.strangers() == Strangers(1, f"{own} (uid {NOBODY})")
    assert "closed, 1 so far, the last from " + own in server.said
    assert not server.admits("10.0.0.7", own=own, source=own)
    assert server.strangers().closed == 2


def test_root_reaches_a_server_of_another_user(server: Server) -> None:
    # A process of root may do to the server what it likes anyway.
    assert [server.admits("", user=NOBODY, uid=uid) for uid in (0, NOBODY, 1234)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("admit", "source", "yes"),
    [
        (None, "127.0.0.1", True),
        ("all", "127.0.0.1", True),
        ("10.0.0.7,all", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.7,127.0.1.0/24", "127.0.1.9", True),
        ("127.0.1.0/24", "127.0.2.1", False),
        ("127.0.0.2/31", "127.0.0.3", True),
        ("127.0.0.2/31", "127.0.0.4", False),
        ("0.0.0.0/0", "127.0.0.1", True),
        ("127.0.0.1/32", "127.0.0.1", True),
        ("127.0.0.1/", "127.0.0.1", False),
        ("::/0", "127.0.0.1", True),
        ("fe80::/10", "127.0.0.1", False),
        ("127.0.0.10", "127.0.0.1", False),
        ("127.0.0,,localhost,127.0.0.1/x", "127.0.0.1", False),
    ],
)
def test_addresses_and_networks_are_let_in(
    server: Server, admit: str | None, source: str, yes: bool
) -> None:
    assert server.admits(admit, source=source) == yes


def test_what_has_closed_its_end_is_not_taken_for_root_and_not_counted(server: Server) -> None:
    # The kernel forgets whose it was, and what was sent could still be read.
    assert not server.admits("", ends="closes")
    assert server.strangers() == Strangers()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(["h1"]) as network:
        yield network


def test_from_another_machine_the_address_counts_and_the_user_does_not(
    server: Server, network: Network
) -> None:
    peer, space = network.address("h1"), network.namespace("h1")
    for admit, yes in (("", False), ("10.0.0.7", False), (peer, True), ("10.77.0.0/16", True)):
        for uid in (0, NOBODY):
            found = server.admits(admit, source=peer, own=network.gateway, uid=uid, space=space)
            assert found == yes, (admit, uid)
    assert server.strangers() == Strangers(4, peer)


# Without netlink, as in some sandboxes; $@ then has /proc/net/tcp or not.
NO_NETLINK = """
import ctypes, os, struct, sys
# seccomp(2): socket(AF_NETLINK) fails with EAFNOSUPPORT.
def code(op, true, false, value):
    return struct.pack("HBBI", op, true, false, value)
ld, jump, ret = 0x20, 0x15, 0x06
program = code(ld, 0, 0, 0) + code(jump, 0, 3, SOCKET) + code(ld, 0, 0, 16)
program += code(jump, 0, 1, 16) + code(ret, 0, 0, 0x50000 | 97) + code(ret, 0, 0, 0x7FFF0000)
held = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
filled = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
assert libc.prctl(22, 2, filled, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
""".replace("SOCKET", {"x86_64": "41", "aarch64": "198"}.get(os.uname().machine, "41"))


def test_where_netlink_is_missing_the_table_of_connections_tells_the_user(server: Server) -> None:
    sandbox = (sys.executable, "-S", "-c", NO_NETLINK)
    assert server.admits("", uid=0, within=sandbox)
    assert not server.admits("", within=sandbox)
    assert not server.admits("", own="::1", source="::1", within=sandbox)
    assert server.strangers().closed == 2
    assert not server.admits("", ends="closes", within=sandbox)
    assert server.admits("127.0.0.1", within=sandbox)


def test_where_the_kernel_tells_no_user_this_machine_is_let_in_with_one_line(
    server: Server,
) -> None:
    hidden = 'mount -t tmpfs none /proc && exec "$@"'
    sandbox = (*separate()[:1], "--mount", "sh", "-c", hidden, "sh")
    bare = (*sandbox, sys.executable, "-S", "-c", NO_NETLINK)
    assert server.admits("", within=bare)
    assert "every user of this machine may connect" in server.said
    # Netlink alone does.
    assert not server.admits("", within=sandbox)
