"""A host whose forwarder has Python's TLS is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from psclust.forward.tls import NATIVE, PYTHON, expected_tls
from psclust.launch.host_agents import _say_slow_tls


def test_hosts_with_slow_tls_are_named() -> None:
    said: list[str] = []
    replies: Any = {
        "h1": SimpleNamespace(tls=expected_tls("/tls.so", "/tensorflow.so")),
        "h2": SimpleNamespace(tls=expected_tls(None, "/tensorflow.so")),
        "h3": SimpleNamespace(tls=expected_tls("/tls.so", None)),
        "h4": SimpleNamespace(tls=""),  # in the open
    }
    assert replies["h1"].tls == NATIVE
    _say_slow_tls(replies, said.append)
    assert len(said) == 1
    assert said[0].startswith(f"h2, h3: TLS by {PYTHON}, which takes three times the CPU")
