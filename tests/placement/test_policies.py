"""A policy in the table is one that users can choose and read about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from psclust.cli.main import psclust
from psclust.placement.placement_settings import PlacementSettings
from psclust.placement.policies import POLICIES
from psclust.placement.variable import Variable
from psclust.spec.cluster_file import Placement

DOCS = Path(__file__).parents[2] / "docs" / "placement.md"


@pytest.mark.parametrize("name", POLICIES)
def test_every_variable_goes_to_one_ps_whatever_is_there_already(name: str) -> None:
    variables = [Variable(f"v{index}", (index + 1,)) for index in range(9)]
    placed = POLICIES[name](variables, [1, 0, 0])
    assert placed.keys() == {variable.name for variable in variables}
    assert set(placed.values()) == {0, 1, 2}


@pytest.mark.parametrize("name", POLICIES)
def test_a_cluster_file_and_a_task_accept_it(name: str) -> None:
    assert Placement.model_validate(name).policy == PlacementSettings.parse(name).policy == name


def test_schema_help_and_docs_list_the_table() -> None:
    schema = Placement.model_json_schema()
    assert schema["anyOf"][0]["enum"] == list(POLICIES)
    said = CliRunner().invoke(psclust, ["up", "--help"]).output
    assert [name for name in POLICIES if f"{name}:" not in " ".join(said.split())] == []
    assert re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE) == list(
        POLICIES
    )
