"""A host's key against files of known hosts, in every form that OpenSSH writes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest

from psclust.reach.ssh.known_hosts import (
    fingerprint,
    judge,
    key_names,
    known_kinds,
    read_known_hosts,
)

KEY, OTHER = b"a key", b"another key"
SALT = b"0123456789abcdef0123"


def shown(key: bytes) -> str:
    return base64.b64encode(key).decode()


def hashed(name: str) -> str:
    digest = hmac.new(SALT, name.encode(), hashlib.sha1).digest()
    return f"|1|{shown(SALT)}|{shown(digest)}"


def verdict(
    folder: Path, lines: str, host: str = "node1", port: int = 22, alias: str | None = None
) -> str | None:
    file = folder / "known_hosts"
    file.write_text(lines.replace("KEY", shown(KEY)).replace("OTHER", shown(OTHER)))
    found = judge(read_known_hosts([folder / "missing", file]), key_names(host, port, alias), KEY)
    if found is None:
        return None
    if found.entry is None:
        return "unknown"
    return "revoked" if found.entry.revoked else "changed"


@pytest.mark.parametrize(
    "line",
    [
        "node1 ssh-ed25519 KEY",
        "NODE1,10.0.0.1 ssh-ed25519 KEY comment",
        "node* ssh-ed25519 KEY",
        "node? ssh-ed25519 KEY",
        f"{hashed('node1')} ssh-ed25519 KEY",
        "# a comment\n\nnode1 ssh-ed25519 KEY",
        "node1 ssh-rsa OTHER\nnode1 ssh-ed25519 KEY",
    ],
)
def test_a_key_that_is_on_file_is_trusted(line: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, line) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "unknown"),
        ("node2 ssh-ed25519 KEY", "unknown"),
        ("node*,!node1 ssh-ed25519 KEY", "unknown"),
        (f"{hashed('node2')} ssh-ed25519 KEY", "unknown"),
        ("|1|broken ssh-ed25519 KEY", "unknown"),
        ("@cert-authority node* ssh-ed25519 KEY", "unknown"),
        ("node1 ssh-ed25519", "unknown"),
        ("node1 ssh-ed25519 OTHER", "changed"),
        ("node1 ssh-rsa OTHER", "changed"),
        ("@revoked node1 ssh-ed25519 KEY\nnode1 ssh-ed25519 KEY", "revoked"),
    ],
)
def test_any_other_key_is_refused(line: str, expected: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, line) == expected


def test_a_port_is_part_of_the_name_and_a_name_without_it_vouches_only_for_the_same_key(
    tmp_path: Path,
) -> None:
    assert verdict(tmp_path, "[node1]:2222 ssh-ed25519 KEY", port=2222) is None
    assert verdict(tmp_path, "node1 ssh-ed25519 KEY", port=2222) is None
    assert verdict(tmp_path, "node1 ssh-ed25519 OTHER", port=2222) == "unknown"
    assert verdict(tmp_path, "[node1]:2222 ssh-ed25519 KEY") == "unknown"


def test_an_alias_takes_the_place_of_name_and_port(tmp_path: Path) -> None:
    assert verdict(tmp_path, "Machine ssh-ed25519 KEY", port=2222, alias="machine") is None
    assert verdict(tmp_path, "node1 ssh-ed25519 KEY", alias="machine") == "unknown"


def test_a_change_names_the_line_that_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"# first\nnode1 ssh-ed25519 {shown(OTHER)}\n")
    found = judge(read_known_hosts([file]), ("node1",), KEY)
    assert found is not None
    assert found.entry is not None
    assert (found.entry.file, found.entry.line) == (file, 2)


def test_the_kinds_of_keys_on_file_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(
        "node1 ssh-rsa AAAA\nnode* ssh-ed25519 BBBB\nnode1 ssh-rsa CCCC\n"
        "@revoked node1 ecdsa-sha2-nistp256 DDDD\n"
    )
    assert known_kinds(read_known_hosts([file]), ("node1",)) == ["ssh-rsa", "ssh-ed25519"]


def test_a_fingerprint_reads_as_ssh_keygen_shows_it() -> None:
    assert fingerprint(b"").startswith("SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU")
