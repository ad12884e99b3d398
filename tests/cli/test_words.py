"""Words that people type: synonyms, help, near misses, options in the wrong place."""

from __future__ import annotations

import pytest

import psclust
from beds.command import CommandBed
from psclust.cli.ages import parse_age
from psclust.cli.misplaced_options import misplaced
from psclust.errors import UsageError


@pytest.mark.process
@pytest.mark.parametrize(
    ("typed", "code", "expected"),
    [
        ("-V", 0, f"psclust {psclust.__version__}\n"),
        ("help", 0, "Explain a verb: psclust help up."),
        ("help stop", 0, "psclust down [OPTIONS] [NAME...]"),
        ("help up", 0, "(default: the file's, or 1)"),
        ("stop --help", 0, "psclust down [OPTIONS]"),
        ("status", 2, "no run is live"),
        (
            "restrat worker:0",
            2,
            "'restrat' is not a psclust command. Did you mean `psclust restart`?",
        ),
        ("frobnicate", 2, "'frobnicate' is not a psclust command. There are up, plan, ps,"),
        ("train.py --lr 1", 2, "A program is started with `psclust up train.py`."),
        ("cluster.yaml", 2, "A cluster file is started with `psclust up -f cluster.yaml`."),
        ("--ps 2 train.py", 2, "--ps: a command comes first, as in `psclust up --ps`."),
        ("down --all", 0, "no run is live"),
        ("down --all one", 2, "either all live runs, or those named"),
        ("up --nope", 2, "psclust: No such option '--nope'."),
        ("prune", 2, "say which runs"),
        ("prune --older-than soon", 2, "write a number with its unit"),
    ],
)
def test_what_people_type_is_understood_or_corrected(
    bed: CommandBed, typed: str, code: int, expected: str
) -> None:
    done, said = bed.run(*typed.split())
    assert expected in said
    assert done == code


SCRIPT = """flags.DEFINE_integer("workers", 1, "")\nparser.add_argument('--name')\n"""


@pytest.mark.parametrize(
    ("words", "script", "found"),
    [
        (["--lr", "1"], SCRIPT, None),
        (["--lr", "1", "--ps", "2"], SCRIPT, "--ps"),
        (["--ps=2"], SCRIPT, "--ps"),
        (["--workers", "3", "--name=x"], SCRIPT, None),
        (["-d"], None, "-d"),
    ],
)
def test_an_option_of_psclust_among_the_arguments_of_a_program_is_found(
    words: list[str], script: str | None, found: str | None
) -> None:
    assert misplaced(["--ps", "--workers", "--name", "-d"], words, script) == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30min", 1800), ("5m", 300), ("1.5h", 5400), ("7d", 604800), ("2 w", 1209600)],
)
def test_ages(text: str, seconds: float) -> None:
    assert parse_age(text, "--since") == seconds


def test_an_age_needs_a_unit() -> None:
    with pytest.raises(UsageError, match=r"--since 7: .* write a number with its unit"):
        parse_age("7", "--since")


def test_dir_lists_what_the_package_has() -> None:
    assert {"Program", "TrainConfig", "estimator", "schedules", *psclust.__all__} <= set(
        dir(psclust)
    )
