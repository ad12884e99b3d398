"""A real sshd and the keys to log in to it, in files of one folder; no user's `~/.ssh` is read or
written."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "nft": "nftables",
    "systemctl": "systemd",
    "systemd-analyze": "systemd",
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "nsenter": "util-linux",
}
_SEARCH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_program(name: str) -> str:
    """The path of a system program, even if only root has it on PATH. Raises FileNotFoundError
    naming the package to install."""
    path = shutil.which(name, path=_SEARCH)
    if path is None:
        package = _PACKAGES.get(name, name)
        raise FileNotFoundError(f"{name} is not installed; as root: apt-get install {package}")
    return path


@dataclass(frozen=True)
class Keys:
    """host, user: private keys; the public ones are beside them."""

    host: Path
    user: Path

    @property
    def host_public(self) -> str:
        """Type and key, as in known_hosts."""
        return " ".join(self.host.with_suffix(".pub").read_text(encoding="ascii").split()[:2])


def make_keys(folder: Path) -> Keys:
    """New Ed25519 keys in `folder`."""
    keys = Keys(folder / "host_key", folder / "id_ed25519")
    for path in (keys.host, keys.user):
        kind = ["-q", "-t", "ed25519", "-N", "", "-C", "psclust-test-bed"]
        command = [find_program("ssh-keygen"), *kind, "-f", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    shutil.copy(keys.user.with_suffix(".pub"), folder / "authorized_keys")
    return keys


def sshd_config(
    folder: Path, keys: Keys, address: str, port: int, environ: Mapping[str, str]
) -> Path:
    """Write the configuration of an sshd at `address:port`, with its default limits on log-ins.
    environ: more variables of whoever logs in."""
    path = folder / f"sshd-{address}.conf"
    settings: dict[str, object] = {
        "ListenAddress": address,
        "Port": port,
        "HostKey": keys.host,
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
    }
    if environ:
        settings["SetEnv"] = " ".join(f"{name}={value}" for name, value in environ.items())
    path.write_text(
        "".join(f"{key} {value}\n" for key, value in settings.items()), encoding="utf-8"
    )
    return path


def write_client_config(home: Path, keys: Keys, places: Mapping[str, tuple[str, int]]) -> None:
    """Write `home/.ssh` so that a client with that HOME reaches the hosts by name. places: name ->
    (address, port)."""
    folder = home / ".ssh"
    folder.mkdir(parents=True, mode=0o700)
    known, config = [], []
    for name, (address, port) in places.items():
        known += [
            f"[{where}]:{port} {keys.host_public}" if port != 22 else f"{where} {keys.host_public}"
            for where in (name, address)
        ]
        config += [f"Host {name}", f"  HostName {address}", f"  Port {port}"]
    config += [
        "Host *",
        f"  IdentityFile {keys.user}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {folder / 'known_hosts'}",
    ]
    (folder / "known_hosts").write_text("\n".join(known) + "\n", encoding="ascii")
    (folder / "config").write_text("\n".join(config) + "\n", encoding="utf-8")
