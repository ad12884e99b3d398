"""A requirement that is not installed is one sentence of what needs it."""

from __future__ import annotations

import re

import pytest

from beds.command import CommandBed
from beds.environment import ROOT, leave_out
from psclust.cli.main import PACKAGES

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("module", "command", "wanted_by", "package"),
    [
        ("rich", "top other", "psclust top", "rich"),
        ("rich", "up --top --workers 1 -- true", "--top", "rich"),
        ("jinja2", "report other", "psclust report", "jinja2"),
        (
            "prometheus_client",
            "up --metrics 9400 --workers 1 -- true",
            "metrics:",
            "prometheus_client",
        ),
    ],
)
def test_what_one_verb_needs_no_other_does(
    bed: CommandBed, module: str, command: str, wanted_by: str, package: str
) -> None:
    leave_out(bed, module)
    code, said = bed.run("up", "--name", "other", "--workers", "1", "--", "true")
    assert code == 0, said
    assert bed.run("report", "other", "--text")[0] == 0
    assert bed.run(*command.split()) == (2, missing(wanted_by, package))
    assert bed.cluster().current() is None


@pytest.mark.parametrize(
    ("module", "command", "package"),
    [("fabric", "exec -H 127.0.0.1 true", "fabric"), ("yaml", "plan --ps 1", "PyYAML")],
)
def test_a_verb_names_what_it_needs(
    bed: CommandBed, module: str, command: str, package: str
) -> None:
    leave_out(bed, module)
    found = bed.run(*command.split())
    assert found == (2, missing(f"psclust {command.split()[0]}", package))


def missing(wanted_by: str, package: str) -> str:
    return (
        f"psclust: {wanted_by} needs {package}, which is not installed beside psclust. "
        f"Install it: pip install {package}\n"
    )


def test_every_requirement_is_known_by_its_module() -> None:
    (block,) = re.findall(
        r"install_requires=\[(.*?)\]", (ROOT / "setup.py").read_text(encoding="utf-8"), re.DOTALL
    )
    required = set(re.findall(r'"([\w-]+)', block))
    # What a task imports, what psclust.cli.main itself does, and a command.
    assert required - set(PACKAGES.values()) == {"tensorflow", "click", "py-spy"}
