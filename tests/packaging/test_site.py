"""The documentation as a site: it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from psclust.cli.main import VERBS
from psclust.spec.cluster_file import ClusterText

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def test_the_site_builds_with_every_verb_and_key(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "-q",
        "--strict",
        "-f",
        str(ROOT / "mkdocs.yml"),
        "-d",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def page(name: str) -> str:
        return (tmp_path / "site" / name / "index.html").read_text(encoding="utf-8")

    assert [
        verb for verb in VERBS if f'id="psclust-{verb}"' not in page("reference/commands")
    ] == []
    assert [
        key
        for key in ClusterText.model_fields
        if f"<code>{key}</code>" not in page("reference/cluster-file")
    ] == []
    assert [
        name
        for name in ("Cluster", "Program", "TrainConfig")
        if f'id="psclust.{name}"' not in page("reference/api")
    ] == []
    # Nothing is loaded from elsewhere.
    assert re.findall(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)', page("tutorial")) == []
