"""What counts as a number, and verbs that are given what does not."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from psclust.cli.main import psclust
from psclust.errors import PsclustError
from psclust.spec.whole_number import whole_number

NO_NUMBERS = ["", "-1", "+1", " 1", "1.0", "1_000", "²", "٣", "1\n", "9" * 19, "9" * 5000]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_digits_that_are_no_number(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize("text", ["0", "007", "9" * 18])
def test_a_number(text: str) -> None:
    assert whole_number(text) == int(text)


@pytest.mark.parametrize("digits", ["²", "9" * 5000], ids=["superscript", "long"])
@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--workers", "{}"],
        ["plan", "--workers", "1:{}"],
        ["plan", "--job", "chief={}"],
        ["plan", "-H", "a:{}"],
        ["plan", "-H", "a[1-{}]"],
        ["plan", "--ps", "{}"],
        ["scale", "worker={}"],
    ],
    ids=" ".join,
)
def test_a_verb_says_that_it_found_none(words: list[str], digits: str) -> None:
    done = CliRunner().invoke(psclust, [word.format(digits) for word in words])
    if not isinstance(done.exception, (SystemExit, PsclustError)):
        pytest.fail(f"{done.exception!r}"[:300])
    assert digits[:20] in f"{done.output}{done.exception}"
