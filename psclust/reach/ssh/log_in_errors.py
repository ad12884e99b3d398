"""Why a log-in failed, in one sentence with its remedy."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from paramiko.ssh_exception import AuthenticationException, IncompatiblePeer, SSHException

from psclust.reach.ssh.auth import Identities
from psclust.reach.ssh.known_hosts import KnownKey, fingerprint
from psclust.reach.ssh.ssh_config import HostSettings

_FAR = (errno.EHOSTUNREACH, errno.ENETUNREACH)


class HostKeyError(SSHException):  # type: ignore[misc]
    """The host's key is not the key on file. entry: see `known_hosts.Refusal`."""

    def __init__(self, entry: KnownKey | None, kind: str, key: bytes) -> None:
        super().__init__("host key")
        self.entry = entry
        self.shown = f"{kind} {fingerprint(key)}"


class ClosedEarlyError(SSHException):  # type: ignore[misc]
    """The server closed the connection before its SSH banner, as sshd does when too many log in at
    once."""


class JumpError(SSHException):  # type: ignore[misc]
    """A jump host cannot reach the host behind it."""


class ProxyCommandError(SSHException):  # type: ignore[misc]
    """The ProxyCommand ended."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A log-in that was tried: the host's settings, its timeout, and the offered keys."""

    settings: HostSettings
    timeout_s: float
    identities: Identities | None

    @property
    def address(self) -> str:
        return f"{self.settings.address}:{self.settings.port}"


def explain(error: Exception, attempt: Attempt) -> str:
    """What was found and what to do, without the host's name in front."""
    if isinstance(error, HostKeyError):
        return _host_key(error, attempt)
    if isinstance(error, AuthenticationException):
        return _authentication(attempt)
    if isinstance(error, JumpError):
        return (
            f"its jump host {attempt.settings.jumps[-1]} cannot reach {attempt.address} ({error}). "
            f"Try: {attempt.settings.command}"
        )
    if isinstance(error, ProxyCommandError):
        return f"its ProxyCommand failed ({error}). Try: {attempt.settings.command}"
    if isinstance(error, ClosedEarlyError):
        return (
            f"{attempt.address} closed every connection before SSH began. "
            "Too many log in at once (MaxStartups), or it is no SSH server."
        )
    if isinstance(error, IncompatiblePeer):
        return (
            f"{attempt.address} and this side have no algorithm in common ({error}). "
            "Update the older of the two SSH installations."
        )
    if isinstance(error, OSError):
        return _network(error, attempt)
    return f"SSH with {attempt.address} failed ({error}). Try: {attempt.settings.command}"


def _network(error: OSError, attempt: Attempt) -> str:
    if isinstance(error, socket.gaierror):
        name = attempt.settings.address
        return (
            f"the name {name} is not known ({error.strerror}). Check its spelling, "
            "or give it a HostName in ~/.ssh/config."
        )
    if error.errno == errno.ECONNREFUSED:
        return (
            f"{attempt.address} refused the connection. Start sshd there, "
            "or name the port it listens on."
        )
    if isinstance(error, TimeoutError):
        return (
            f"no answer from {attempt.address} in {attempt.timeout_s:.0f} s. "
            "Is it switched on, and does its firewall let SSH in?"
        )
    if error.errno in _FAR:
        return (
            f"{attempt.address} cannot be reached ({error.strerror}). "
            "Is it switched on, and is there a route to it?"
        )
    return (
        f"SSH with {attempt.address} failed ({error.strerror or error}). Try: "
        f"{attempt.settings.command}"
    )


def _host_key(error: HostKeyError, attempt: Attempt) -> str:
    settings = attempt.settings
    file = next(
        (str(path) for path in settings.known_hosts if str(path) != "/dev/null"),
        "~/.ssh/known_hosts",
    )
    name = settings.key_alias or (
        settings.address if settings.port == 22 else f"[{settings.address}]:{settings.port}"
    )
    entry = error.entry
    if entry is None:
        scan = (
            f"ssh-keyscan{f' -p {settings.port}' if settings.port != 22 else ''} "
            f"{settings.address} >> {file}"
        )
        return (
            f"its host key ({error.shown}) is not known. "
            f"Log in once with `{attempt.settings.command}` and compare it, or trust it: {scan}"
        )
    line = f"{entry.file}:{entry.line}"
    if entry.revoked:
        return (
            f"its host key ({error.shown}) is marked as revoked in {line}. Do not log in; "
            "ask who runs the host."
        )
    return (
        f"its host key has CHANGED: it is {error.shown}, and {line} says otherwise. "
        "If the host was installed anew, remove the old key: "
        f"ssh-keygen -R '{name}' -f {entry.file}. If not, another machine may be answering."
    )


def _authentication(attempt: Attempt) -> str:
    identities, user = attempt.identities, attempt.settings.user
    who = f"user {user}" if user else "this user"
    tried = ", ".join(identities.tried) if identities is not None else ""
    locked = ", ".join(identities.locked) if identities is not None else ""
    text = (
        f"{who} was not let in ("
        + (f"tried {tried}" if tried else "there was no key to try")
        + ")."
    )
    if locked:
        return f"{text} {locked} has a passphrase, which only ssh-agent can give: ssh-add {locked}"
    return (
        f"{text} Check that `{attempt.settings.command}` works without a question: "
        "ssh-copy-id, IdentityFile, `user:` in the cluster file."
    )
