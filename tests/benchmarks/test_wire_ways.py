"""The rows of the wire's benchmark are commands as users type them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from psclust.cli.verbs.up import command as up
from psclust.train.program_options import parse_options

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# Which kind of training it is, and nothing that makes one faster.
DEFAULTS = r"( --replication in-graph)?( --sync)? ours:MODEL( --config wire_dtype=bfloat16)?"


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import wire_ways

    return wire_ways


def test_main_rows_of_psclust_have_the_defaults(ways: ModuleType) -> None:
    ours = [way for way in ways.TABLES["main"].values() if "ours:" in way.command]
    assert len(ours) == 5
    for way in ours:
        assert re.fullmatch(re.escape(ways.UP) + DEFAULTS, way.command)


def test_every_command_is_one_of_psclust(ways: ModuleType) -> None:
    for table in ways.TABLES.values():
        for way in table.values():
            if not way.torch:
                words = way.typed(1.0).split()[2:]
                program, *its_own = up.make_context("up", words).params["program"]
                if program == "ours:MODEL":
                    parse_options([program, *its_own])
                else:
                    assert (BENCHMARKS / "training" / program).is_file()


def test_a_way_is_left_out_where_it_cannot_train(ways: ModuleType) -> None:
    found = ways.ways_of("main", "embedding", torch=False)
    assert "by hand, round robin" in found
    assert "by hand, tuned" not in found
    assert not any(name.startswith("PyTorch") for name in found)
    assert list(ways.ways_of("main", "skewed", ["by hand, tuned"], torch=True)) == [
        "by hand, tuned"
    ]


def test_best_shards_are_larger_on_faster_links_and_for_fewer_bytes(ways: ModuleType) -> None:
    way = ways.TABLES["best"]["between-graph sync, best shards"]
    assert "--max-shard-bytes 256KB " in way.typed(1.0)
    assert "--max-shard-bytes 2MB " in way.typed(10.0)
    assert ways.best_shard(1.0, narrow=True) == "1MB"


@pytest.mark.parametrize(
    ("torch", "said"),
    [("/tmp/venv/bin/python", "a /tmp of its own"), ("/nowhere/python", "no such program")],
)
def test_an_interpreter_that_hosts_lack_is_refused_before_anything_is_measured(
    torch: str, said: str
) -> None:
    for name in ("suite.py", "wire.py"):
        words = [sys.executable, BENCHMARKS / name, "--torch", torch]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert said in done.stderr
