"""The file of the links between hosts that doctor has measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from psclust.rundir.folder import clusters
from psclust.rundir.links_file import (
    MOST_LINKS,
    OLD_S,
    Link,
    keep_links,
    read_links,
    slowest_link,
)

NOW = 1_800_000_000.0
LINK = Link(("a", "b"), 0.941, 0.0002, NOW)
OTHER = Link(("b", "c"), 9.41, 0.0001, NOW)


def test_links_are_kept_and_replaced_in_either_direction(tmp_path: Path) -> None:
    root = tmp_path / "state" / "psclust"
    assert read_links(root) == []
    keep_links(root, [LINK, OTHER])
    later = replace(LINK, hosts=("b", "a"), gbit=0.5, when=NOW + 1)
    keep_links(root, [later])
    assert read_links(root) == [OTHER, later]
    assert clusters(root) == []


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    keep_links(tmp_path, [replace(LINK, hosts=("x", "y"), when=NOW - 1)])
    keep_links(tmp_path, [replace(LINK, hosts=("a", f"h{n}")) for n in range(MOST_LINKS)])
    found = read_links(tmp_path)
    assert len(found) == MOST_LINKS
    assert all("x" not in link.hosts for link in found)


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"hosts": ["a"]}]', '["a"]', "null"])
def test_a_file_that_is_not_of_psclust_is_as_none(tmp_path: Path, text: str) -> None:
    keep_links(tmp_path, [LINK])
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert read_links(tmp_path) == []


@pytest.mark.parametrize(
    ("hosts", "now", "expected"),
    [
        ("abc", NOW, LINK),
        ("bc", NOW, OTHER),
        ("ac", NOW, None),
        ("a", NOW, None),
        ("abcd", NOW + OLD_S - 1, LINK),
        ("abc", NOW + OLD_S, None),
    ],
)
def test_the_slowest_link_between_some_hosts(hosts: str, now: float, expected: Link | None) -> None:
    assert slowest_link([OTHER, LINK], hosts, now) == expected
