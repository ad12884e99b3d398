"""Mistakes in placeholders: each with its line, all at once, with everything else that is wrong."""

from __future__ import annotations

from pathlib import Path

from written_files import mistakes, write

from psclust.spec.load import Override

FILE = """\
program: train.py
jobs:
  ps: 2
  wroker: 1
  evaluator: {count: 1, args: ["{evaluator_hosts}"]}
args:
  - "--ps={ps_host}"
  - "{{not_one}} {lr:0.1} {\\"json\\": 1} {ps_hosts:;} {wroker_hosts:|} {worker_hosts} \
{address:ps:1} {port:ps:0} {free_port}"
  - "{address:ps:2} {address:worker:0} {address:ps}"
  - "{ps_hosts:}"
env: {A: "{nothing_like_it}"}
update: sycn
"""


def test_each_mistake_has_its_line_and_says_what_to_write(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    found = [line.removeprefix(f"{path}:") for line in mistakes(path)]
    has = "'{address:ps:2} {address:worker:0} {address:ps}' has "
    assert [line.replace(has, "").partition(" known")[0] for line in found] == [
        (
            "5: jobs.evaluator.args[0]: "
            "'{evaluator_hosts}' has the unknown placeholder {evaluator_hosts};"
        ),
        (
            "7: args[0]: '--ps={ps_host}' has the unknown placeholder {ps_host}; "
            "did you mean {ps_hosts}?"
        ),
        (
            "9: args[2]: {address:ps:2}, and there is no ps:2: "
            "the last task is ps:1; indices begin at 0."
        ),
        (
            "9: args[2]: {address:worker:0}, and no task of the cluster belongs to a job 'worker'; "
            "did you mean wroker?"
        ),
        "9: args[2]: {address:ps}, which names no task; write {address:ps:0}.",
        (
            "10: args[3]: '{ps_hosts:}' has no separator in {ps_hosts:}; "
            "write it after the colon, as in {ps_hosts:;}."
        ),
        "11: env.A: '{nothing_like_it}' has the unknown placeholder {nothing_like_it};",
        "12: update: found the text 'sycn'; write sync or async (did you mean sync?).",
    ]


def test_those_on_the_command_line_are_named_by_their_flag() -> None:
    given = (
        Override("PROGRAM", ("program",), ["train.py"]),
        Override("PROGRAM", ("args",), ["{task}"]),
        Override("--env", ("env", "X"), "{y}"),
    )
    found = mistakes(None, *given)
    assert found[0].startswith("PROGRAM: [0]: '{task}' has the unknown placeholder {task}; ")
    assert found[1].startswith("--env: '{y}' has the unknown placeholder {y}; known are ")
