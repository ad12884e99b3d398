"""Scripts that do what scripts do: fail, exit oddly, print without end, find somebody else's
variables in their environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beds.command import CommandBed

pytestmark = pytest.mark.process

WORKERS_ONLY = """
jobs: {worker: 2}
program: script.py
preload: false
restart: {backoff: 0.1}
"""


@pytest.fixture
def script(bed: CommandBed) -> CommandBed:
    bed.write("psclust.yaml", WORKERS_ONLY)
    return bed


@pytest.mark.tensorflow
def test_a_script_that_fails_at_import_fails_the_run_with_its_own_traceback(
    script: CommandBed,
) -> None:
    script.write("script.py", "import psclust_no_such_module\n")
    script.write("psclust.yaml", WORKERS_ONLY.replace("preload: false", ""))
    said = script.fails(1, "up")
    assert "ModuleNotFoundError: No module named 'psclust_no_such_module'" in said
    assert 'script.py", line 1, in <module>' in said
    assert "runtime" not in said
    assert "exited with code 1" in said


def test_a_script_that_exits_3_fails_the_run_and_its_code_is_reported(script: CommandBed) -> None:
    script.write(
        "script.py",
        "import os, sys, time\nif os.environ['PSCLUST_TASK'] == 'worker:1': "
        "sys.exit(3)\ntime.sleep(600)\n",
    )
    assert "worker:1 exited with code 3" in script.fails(1, "up")
    status = json.loads(script.done_here("ps", "--json"))
    tasks = {task["task"]: task["exit_code"] for task in status["tasks"]}
    assert tasks == {"worker:0": 143, "worker:1": 3}


def test_a_flood_of_output_loses_no_line_and_keeps_each_tasks_order(script: CommandBed) -> None:
    script.write(
        "script.py",
        "import sys\n"
        "sys.stdout.write(''.join(f'line {i} of the flood\\n' for i in range(100_000)))\n",
    )
    said = script.done("up")
    for task in ("worker:0", "worker:1"):
        numbers = [int(line.split()[1]) for line in script.log(task).splitlines()]
        assert numbers == list(range(100_000))
        shown = [
            int(line.split()[3]) for line in said.splitlines() if line.startswith(f"{task} | line ")
        ]
        assert shown == list(range(100_000))


def test_a_tf_config_of_another_cluster_is_not_passed_on_and_said_so(script: CommandBed) -> None:
    script.write(
        "script.py",
        "import os\nprint('TF_CONFIG:', os.environ.get('TF_CONFIG'), 'proxy:', "
        "os.environ['http_proxy'])\n",
    )
    foreign = {
        "TF_CONFIG": '{"cluster": {"worker": ["elsewhere:1"]}}',
        "http_proxy": "http://127.0.0.1:9",
    }
    said = script.done("up", "--role-by", "none", env=foreign)
    assert "worker:0 | TF_CONFIG: None proxy: http://127.0.0.1:9" in said
    assert "TF_CONFIG in your environment belongs to another cluster" in said


def test_of_a_command_that_is_not_python_the_wait_at_the_end_says_what_it_is(
    bed: CommandBed,
) -> None:
    bed.write(
        "psclust.yaml",
        "{jobs: {chief: {run: [echo]}, worker: {run: [sh, -c, sleep 600]}}, "
        "deadlines: {finish: 0.3}}",
    )
    said = bed.done("up")
    assert (
        "waiting for worker:0 to end, for 0.3 s at most (deadlines.finish); psclust can tell that"
        in said
    )
    assert "a Python program just serves, but not sh (worker:0)" in said


def test_a_command_that_is_not_python_runs_as_it_is(bed: CommandBed) -> None:
    command = ["sh", "-c", "echo $0 {task_index} ';|,'", "{job_name}"]
    said = bed.done("up", "--job", "ps=0", "--workers", "1", "--", *command)
    assert "worker:0 | worker 0 ;|,\n" in said


def test_what_finds_no_room_on_a_full_disk_is_shown_while_the_run_goes_on(
    small_disk: CommandBed,
) -> None:
    small_disk.write("psclust.yaml", WORKERS_ONLY.replace("{worker: 2}", "{worker: 1}"))
    small_disk.write(
        "script.py",
        "import os, time\nfor i in range(100_000): print('line', i)\ntime.sleep(1)\n"
        "print('half a line, ', end='', flush=True); time.sleep(1); print('the \u03c1eason', "
        "flush=True)\nwhile not os.path.exists('finish'): time.sleep(0.02)\nprint('last words')\n"
        "raise SystemExit(5)\n",
    )
    up = small_disk.start("up")
    up.until("worker:0 | half a line, the \u03c1eason\n")
    assert "worker:0 | line 0\n" in up.output
    assert "worker:0 | line 99999\n" in up.output
    assert "bytes found no room on disk and are not shown]" in up.output
    assert "no space left" in up.output
    small_disk.write("finish", "")
    assert up.wait() == 1
    assert up.output.count("half a line") == 2  # once as it came, once as the reason
    assert "worker:0 | last words\n" in up.output
    assert "psclust:   last words\n" in up.output
    assert "bytes for which there was no room: " in up.output


def test_a_run_folder_that_cannot_be_written_is_a_sentence(bed: CommandBed, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bed.write("script.py", "")
    said = bed.fails(3, "up", "--run-dir", str(tmp_path / "file"), "script.py")
    assert "Traceback" not in said
    assert str(tmp_path / "file") in said
