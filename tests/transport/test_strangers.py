"""The file in which the server shim counts connections that it has closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.transport.strangers import Strangers, read_strangers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, Strangers()),
        ("", Strangers()),
        ("12                  10.0.0.9      \n", Strangers(12, "10.0.0.9")),
        ("1                   ::1 (uid 1001)\n", Strangers(1, "::1 (uid 1001)")),
        ("x y", Strangers()),
        ("\xff\xfe", Strangers()),
    ],
)
def test_what_cannot_be_read_is_none(tmp_path: Path, text: str | None, found: Strangers) -> None:
    path = tmp_path / "ps-0"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    assert read_strangers(path) == found
