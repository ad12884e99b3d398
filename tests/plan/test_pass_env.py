"""Which variables of the calling environment tasks on other hosts get."""

from __future__ import annotations

import pytest

from psclust.errors import ClusterFileError
from psclust.plan.task_environment import passed
from psclust.spec.env_file import parse_env_file

ENVIRON = {
    "HF_TOKEN": "t",
    "WANDB_KEY": "w",
    "WANDB_MODE": "m",
    "HOME": "/root",
    "SSH_AUTH_SOCK": "/s",
    "TF_CONFIG": "{}",
    "PSCLUST_TASK": "worker:0",
    "OTHER": "o",
}


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], []),
        (["HF_TOKEN"], ["HF_TOKEN"]),
        (["WANDB_*"], ["WANDB_KEY", "WANDB_MODE"]),
        (["WANDB_?ODE", "hf_token"], ["WANDB_MODE"]),
        (["*"], ["HF_TOKEN", "OTHER", "WANDB_KEY", "WANDB_MODE"]),
        (["HOME", "SSH_AUTH_SOCK", "NOT_THERE"], ["HOME", "SSH_AUTH_SOCK"]),
        (["TF_CONFIG", "PSCLUST_TASK"], []),
    ],
)
def test_what_is_named_is_passed_and_nothing_else(patterns: list[str], names: list[str]) -> None:
    assert passed(ENVIRON, patterns, {}) == {name: ENVIRON[name] for name in names}


def test_a_file_gives_variables_too_and_those_that_are_passed_win() -> None:
    text = (
        "# keys\nexport A = 1\nB='two words' \nC=\"#3\"\nD=a=b # no comment\nHF_TOKEN=old\n\nA=2\n"
    )
    assert passed(ENVIRON, ["HF_TOKEN"], parse_env_file(text, ".env")) == {
        "A": "2",
        "B": "two words",
        "C": "#3",
        "D": "a=b # no comment",
        "HF_TOKEN": "t",
    }


def test_a_bad_line_is_named_and_its_value_is_not_shown() -> None:
    with pytest.raises(ClusterFileError) as caught:
        parse_env_file("A=1\nsecret\n", "/x/.env")
    assert caught.value.problems == ("/x/.env:2: there is no = in this line; write NAME=VALUE.",)
