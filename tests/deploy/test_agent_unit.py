"""systemd accepts and runs the unit of the standing agent."""

from __future__ import annotations

import configparser
import os
import subprocess
from pathlib import Path

import pytest

from beds.sshd import find_program

pytestmark = pytest.mark.process

UNIT = Path(__file__).parents[2] / "deploy" / "psclust-agent.service"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With an installation in the place where the unit expects one."""
    python = tmp_path / ".local" / "share" / "psclust" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return tmp_path


def verify(unit: Path, home: Path) -> tuple[int, str]:
    """Exit code, and what systemd has to say of the unit."""
    environ = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    command = [find_program("systemd-analyze"), "--user", "--man=no", "verify", str(unit)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_systemd_has_nothing_to_say_against_it(home: Path) -> None:
    assert verify(UNIT, home) == (0, "")


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("KillMode=mixed", "KillMode=mixt"),
        ("LimitNOFILE=65536", "LimitNOFILES=65536"),
        ("share/psclust/bin/python", "share/nothing/bin/python"),
    ],
)
def test_a_mistake_in_it_would_be_seen(home: Path, tmp_path: Path, line: str, instead: str) -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert line in text
    broken = tmp_path / "broken" / UNIT.name
    broken.parent.mkdir()
    broken.write_text(text.replace(line, instead), encoding="utf-8")
    _, said = verify(broken, home)
    assert UNIT.name in said


def test_what_it_starts_is_the_standing_agent_of_an_installation() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(UNIT)
    assert unit["Service"]["ExecStart"].split() == [
        "%h/.local/share/psclust/bin/python",
        "-m",
        "psclust.agent",
        "--standing",
    ]
