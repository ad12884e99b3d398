"""Other things on a host that can stop a cluster: names, proxies, a firewall, servers on every
interface; its GPUs; and how its connections share a link."""

from __future__ import annotations

import base64
import fcntl
import importlib.util
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from typing import Any, BinaryIO

_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
_SIOCGIFADDR = 0x8915
_SEARCH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
# A server that asks for every interface.
_BIND = """
import os, socket
server = socket.socket()
server.bind(("0.0.0.0", int(os.environ["PSCLUST_PORT"])))
print(server.getsockname()[0])
"""


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `names` to look up; `shim`, the library that keeps servers on one interface, in
    base64, or None; `cache`, psclust's folder in the user's; `builds`, the source of
    `spec/tensorflow_builds.py`."""
    return {
        "names": {name: _look_up(name) for name in question["names"]},
        "proxies": sorted(
            {name.lower() for name in os.environ if name.lower() in _PROXIES and os.environ[name]}
        ),
        "gpus": _gpus(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "interfaces": {
            name: address for _, name in socket.if_nameindex() if (address := _address(name))
        },
        "shim": _shim(base64.b64decode(question["shim"]), question["cache"])
        if question["shim"]
        else None,
        "firewall": _firewall(),
        "congestion": _congestion(),
        "cubic": _allows_cubic(),
        **_kernels(question["builds"], question["cache"]),
    }


def _look_up(name: str) -> str | None:
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    except OSError:
        return None


def _gpus() -> list[str]:
    program = shutil.which("nvidia-smi")
    return (
        _output_of([program, "--query-gpu=name,memory.total", "--format=csv,noheader"]).splitlines()
        if program
        else []
    )


def _address(interface: str) -> str | None:
    """Its first IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            found = fcntl.ioctl(
                sock.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15])
            )
        except OSError:
            return None
    return socket.inet_ntoa(found[20:24])


def _shim(library: bytes, cache: str) -> str:
    """The address that a server gets if it asks for every interface and the shim narrows that to
    127.0.0.1."""
    os.makedirs(cache, mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache, suffix=".so") as file, socket.socket() as reserved:
        file.write(library)
        file.flush()
        # As psclust reserves ports.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        told = {"PSCLUST_BIND": "127.0.0.1", "PSCLUST_PORT": str(reserved.getsockname()[1])}
        return _output_of(
            [sys.executable, "-c", _BIND], {**os.environ, "LD_PRELOAD": file.name, **told}
        ).strip()


def _kernels(builds: str, cache: str) -> dict[str, Any]:
    """`build`: of the TensorFlow that is here; None: there is none. `fit`: what of psclust's
    kernels fits it, as text; None: nobody knows yet. `c_library`: whether servers need no
    Python."""
    spec = importlib.util.find_spec("tensorflow")
    folder = next(iter((spec.submodule_search_locations if spec else None) or ()), None)
    if folder is None:
        return {"build": None, "fit": None, "c_library": False}
    module: dict[str, Any] = {"__name__": "psclust_builds"}
    exec(compile(builds, "tensorflow_builds.py", "exec"), module)
    build = module["build_of"](os.path.join(folder, module["LIBRARY"]))
    fit = module["known_fit"](folder, cache)
    return {
        "build": build or "unknown",
        "fit": None if fit is None else str(fit),
        "c_library": os.path.exists(os.path.join(folder, module["C_LIBRARY"])),
    }


def _congestion() -> str | None:
    """The congestion control that a connection has unless it asks for another."""
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def _allows_cubic() -> bool:
    """Whether a process of this user may choose cubic."""
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        except OSError:
            return False
    return True


def _firewall() -> bool | None:
    """Whether incoming packets are filtered; None if only root could tell."""
    if os.geteuid() != 0:
        return None
    nft, iptables = shutil.which("nft", path=_SEARCH), shutil.which("iptables", path=_SEARCH)
    if nft is not None:
        rules = _output_of([nft, "list", "ruleset"])
        return "hook input" in rules and any(word in rules for word in (" drop", " reject"))
    if iptables is not None:
        rules = _output_of([iptables, "-S", "INPUT"])
        return any(word in rules for word in ("DROP", "REJECT"))
    return None


def _output_of(command: list[str], env: dict[str, str] | None = None) -> str:
    try:
        return subprocess.run(
            command,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
