"""The check of a host's key against the known_hosts files. Their grammar: sshd(8), SSH_KNOWN_HOSTS
FILE FORMAT. Certificate authorities are not supported."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A line of a known_hosts file. `key`: base64."""

    file: Path
    line: int
    revoked: bool
    hosts: str
    kind: str
    key: str

    def is_for(self, name: str) -> bool:
        if self.hosts.startswith("|1|"):
            return _hashed(name, self.hosts)
        patterns = self.hosts.lower().split(",")
        matching = [
            pattern
            for pattern in patterns
            if fnmatchcase(name, pattern.removeprefix("!").replace("[", "[[]"))
        ]
        return bool(matching) and not any(pattern.startswith("!") for pattern in matching)


@dataclass(frozen=True, slots=True)
class Refusal:
    """`entry`: revokes this key, or has another one for the host; None: no file has any for it."""

    entry: KnownKey | None


def read_known_hosts(files: Iterable[Path]) -> list[KnownKey]:
    """The keys in all files; missing files are skipped."""
    entries = []
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else None
            if len(words) >= 3 and not words[0].startswith("#") and marker in (None, "@revoked"):
                entries.append(
                    KnownKey(file, number, marker is not None, words[0], words[1], words[2])
                )
    return entries


def key_names(host: str, port: int, alias: str | None) -> tuple[str, ...]:
    """The names under which a host's key may be on file, the most exact one first."""
    if alias is not None:
        return (alias.lower(),)
    host = host.lower()
    return (host,) if port == 22 else (f"[{host}]:{port}", host)


def known_kinds(known: Sequence[KnownKey], names: Sequence[str]) -> list[str]:
    """The kinds of keys (`ssh-ed25519`) on file for a host, so that it can be asked for one of
    them."""
    return list(
        dict.fromkeys(
            entry.kind
            for name in names
            for entry in known
            if entry.is_for(name) and not entry.revoked
        )
    )


def judge(known: Sequence[KnownKey], names: Sequence[str], key: bytes) -> Refusal | None:
    """None: the key is on file for the host. A name without the port counts only if its key is the
    same, as in OpenSSH."""
    shown = base64.b64encode(key).decode("ascii")
    for entry in known:
        if entry.revoked and entry.key == shown and any(entry.is_for(name) for name in names):
            return Refusal(entry)
    trusted = [entry for entry in known if not entry.revoked]
    if any(entry.key == shown and entry.is_for(name) for name in names for entry in trusted):
        return None
    return Refusal(next((entry for entry in trusted if entry.is_for(names[0])), None))


def fingerprint(key: bytes) -> str:
    """`SHA256:...`, as `ssh-keygen -l` shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode("ascii").rstrip("=")


def _hashed(name: str, hosts: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in hosts[3:].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
