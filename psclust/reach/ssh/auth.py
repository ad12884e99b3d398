"""The keys offered to a host: from ssh-agent and from files, in OpenSSH's order. The user is never
asked."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paramiko import Agent, PKey
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey, OnDiskPrivateKey
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import SSHException

_DEFAULT_FILES = ("id_rsa", "id_ecdsa", "id_ed25519")


class Identities(AuthStrategy):  # type: ignore[misc]
    """`ssh_config`: of the host. `tried`: names of the offered keys; `locked`: files with a
    passphrase."""

    def __init__(self, ssh_config: Mapping[str, Any], username: str, home: Path) -> None:
        super().__init__(ssh_config=ssh_config)
        self.tried: list[str] = []
        self.locked: list[str] = []
        self._username = username
        given = ssh_config.get("identityfile")
        self._files = (
            [Path(name).expanduser() for name in given]
            if given
            else [home / ".ssh" / name for name in _DEFAULT_FILES]
        )
        self._only_files = ssh_config.get("identitiesonly", "no").lower() == "yes"
        self._agent = Agent()

    def get_sources(self) -> Iterator[AuthSource]:
        """Keys in both the agent and a file, then other keys of the agent, then other files."""
        files = [path for path in self._files if path.is_file()]
        public = {blob: path for path in files if (blob := _public_blob(path)) is not None}
        held = {key.asbytes(): key for key in self._agent.get_keys()}
        for blob in sorted(held, key=lambda blob: blob not in public):
            if blob in public or not self._only_files:
                self.tried.append(
                    f"{public.get(blob) or held[blob].comment or 'a key'} (ssh-agent)"
                )
                yield InMemoryPrivateKey(self._username, held[blob])
        for path in files:
            if not any(blob in held for blob, other in public.items() if other == path):
                yield from self._from_file(path)

    def close(self) -> None:
        self._agent.close()

    def _from_file(self, path: Path) -> Iterator[AuthSource]:
        try:
            key = PKey.from_path(path)
        except TypeError:  # raised by `cryptography` if a passphrase is missing
            self.locked.append(str(path))
            return
        except (OSError, ValueError, SSHException, UnknownKeyType):
            return
        self.tried.append(str(path))
        yield OnDiskPrivateKey(self._username, "ssh-config", path, key)


def _public_blob(path: Path) -> bytes | None:
    """The public key beside a private one, as the agent shows it."""
    try:
        return base64.b64decode(
            path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").split()[1]
        )
    except (OSError, ValueError, IndexError):
        return None
