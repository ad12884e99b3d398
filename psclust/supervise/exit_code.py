"""Exit codes in words. Python's are negative for a signal; a shell's 128+n is read the same way."""

from __future__ import annotations

import signal


def signal_of(code: int) -> int | None:
    """The signal behind an exit code, or None."""
    number = -code if code < 0 else code - 128
    return number if number > 0 and number in {item.value for item in signal.Signals} else None


def ended_by_signal(code: int) -> bool:
    """Whether a signal ended the process: it was killed or crashed, and did not choose its exit
    code."""
    return signal_of(code) is not None


def shell_code(code: int) -> int:
    """The exit code a shell would show: 128+n for signal n."""
    return 128 - code if code < 0 else code


def describe_exit(code: int, *, on_request: bool = False) -> str:
    """`exited with code 3`, `was killed by SIGKILL (...)`. on_request: whether psclust was ending
    it."""
    number = signal_of(code)
    if number is None:
        return f"exited with code {code}"
    name = signal.Signals(number).name
    unexplained = number == signal.SIGKILL and not on_request
    hint = (
        " (if it was not sent on purpose, the machine may have been out of memory)"
        if unexplained
        else ""
    )
    return f"was killed by {name}{hint}" if code < 0 else f"exited with code {code} ({name}){hint}"
