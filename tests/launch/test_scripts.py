"""Scripts that do what scripts do: fail, exit oddly, print without end, find somebody else's
variables in their environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beds.command import CommandBed
from psclust.testing.wait import wait_until

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
    code, said = script.run("up")
    assert code == 1
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
    code, said = script.run("up")
    assert code == 1
    assert "worker:1 exited with code 3" in said
    code, said = script.run_here("ps", "--json")
    tasks = {task["task"]: task["exit_code"] for task in json.loads(said)["tasks"]}
    assert tasks == {"worker:0": 143, "worker:1": 3}


def test_a_script_killed_by_a_signal_of_its_own_is_named_with_the_signal(
    script: CommandBed,
) -> None:
    script.write("psclust.yaml", WORKERS_ONLY.replace("{backoff: 0.1}", "{when: never}"))
    script.write("script.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    code, said = script.run("up")
    assert code == 1
    assert "was killed by SIGSEGV" in said


def test_tolerated_exit_codes_count_as_success(script: CommandBed) -> None:
    script.write(
        "psclust.yaml",
        WORKERS_ONLY.replace("{worker: 2}", "{worker: {count: 2, ok_exit_codes: [0, 7]}}"),
    )
    script.write("script.py", "import sys\nsys.exit(7)\n")
    code, said = script.run("up")
    assert code == 0, said


def test_a_flood_of_output_loses_no_line_and_keeps_each_tasks_order(script: CommandBed) -> None:
    script.write(
        "script.py",
        "import sys\n"
        "sys.stdout.write(''.join(f'line {i} of the flood\\n' for i in range(100_000)))\n",
    )
    code, said = script.run("up")
    assert code == 0
    for task in ("worker:0", "worker:1"):
        numbers = [int(line.split()[1]) for line in script.log(task).splitlines()]
        assert numbers == list(range(100_000))
        shown = [
            int(line.split()[3]) for line in said.splitlines() if line.startswith(f"{task} | line ")
        ]
        assert shown == list(range(100_000))


def test_half_a_character_is_shown_as_such_and_the_rest_stays_readable(script: CommandBed) -> None:
    script.write(
        "script.py",
        "import os\nos.write(1, 'gr\\u00fcn\\n'.encode()[:3])\nos.write(1, b'\\nafter\\n')\n"
        "os.write(1, b'end\\xc3')\n",
    )
    code, said = script.run("up")
    assert code == 0
    assert "worker:0 | gr\ufffd\n" in said
    assert "worker:0 | after\n" in said
    assert "worker:0 | end\ufffd\n" in said


def test_of_a_progress_bar_a_file_gets_the_last_state(script: CommandBed) -> None:
    script.write("script.py", "print('10 %', end='\\r')\nprint('100 %')\n")
    _, said = script.run("up")
    assert "worker:0 | 10 %" not in said
    assert "worker:0 | 100 %\n" in said


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
    code, said = script.run("up", "--role-by", "none", env=foreign)
    assert code == 0
    assert "worker:0 | TF_CONFIG: None proxy: http://127.0.0.1:9" in said
    assert "TF_CONFIG in your environment belongs to another cluster" in said


def test_a_program_that_outlives_those_who_decide_is_stopped_after_its_grace(
    script: CommandBed,
) -> None:
    script.write(
        "psclust.yaml",
        WORKERS_ONLY.replace("{worker: 2}", "{chief: 1, worker: 1}") + "deadlines: {finish: 0.3}\n",
    )
    script.write(
        "script.py",
        "import os, time\nif os.environ['PSCLUST_TASK'] == 'worker:0': time.sleep(600)\n",
    )
    code, said = script.run("up")
    assert code == 0
    assert "waiting for worker:0 to end" in said
    assert "worker:0 had not ended 0.3 s after the others and was stopped" in said
    assert "just serves" not in said


def test_of_a_command_that_is_not_python_the_wait_at_the_end_says_what_it_is(
    bed: CommandBed,
) -> None:
    bed.write(
        "psclust.yaml",
        "{jobs: {chief: {run: [echo]}, worker: {run: [sh, -c, sleep 600]}}, "
        "deadlines: {finish: 0.3}}",
    )
    code, said = bed.run("up")
    assert code == 0
    assert (
        "waiting for worker:0 to end, for 0.3 s at most (deadlines.finish); psclust can tell that"
        in said
    )
    assert "a Python program just serves, but not sh (worker:0)" in said


def test_an_evaluator_never_decides_and_its_failure_does_not_end_the_run(
    script: CommandBed,
) -> None:
    script.write(
        "psclust.yaml",
        WORKERS_ONLY.replace(
            "{worker: 2}", "{worker: 1, evaluator: {count: 1, restart: {max: 0}}}"
        ),
    )
    script.write(
        "script.py",
        "import os, sys, time\nif 'evaluator' in os.environ['PSCLUST_TASK']: sys.exit(1)\n"
        "while not os.path.exists('finish'): time.sleep(0.02)\n",
    )
    up = script.start("up")
    script.wait_for("evaluator:0", "failed")
    script.write("finish", "")
    assert up.wait() == 0


def test_a_command_that_is_not_python_runs_as_it_is(bed: CommandBed) -> None:
    code, said = bed.run(
        "up",
        "--job",
        "ps=0",
        "--workers",
        "1",
        "--",
        "sh",
        "-c",
        "echo $0 {task_index} ';|,'",
        "{job_name}",
    )
    assert code == 0
    assert "worker:0 | worker 0 ;|,\n" in said


def test_a_missing_script_is_refused_before_anything_starts(bed: CommandBed) -> None:
    code, said = bed.run("up", "no_such_script.py")
    assert code == 2
    assert "no_such_script.py: No such file or directory" in said
    assert not bed.state.exists()


def test_a_full_disk_under_the_run_folder_does_not_stop_the_work(small_disk: CommandBed) -> None:
    small_disk.write("psclust.yaml", WORKERS_ONLY.replace("{worker: 2}", "{worker: 1}"))
    small_disk.write(
        "script.py",
        "for i in range(100_000): print('line', i)\nopen('worked', 'w').close()\n"
        "raise SystemExit(5)\n",
    )
    code, said = small_disk.run("up")
    assert (small_disk.folder / "worked").exists()
    assert "no space left" in said
    assert code == 1
    assert "worker:0 exited with code 5" in said
    assert "  line 99999" in said


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
    wait_until(
        lambda: "worker:0 | half a line, the \u03c1eason\n" in up.output, what="what found no room"
    )
    assert "worker:0 | line 0\n" in up.output
    assert "worker:0 | line 99999\n" in up.output
    assert "bytes found no room on disk and are not shown]" in up.output
    small_disk.write("finish", "")
    assert up.wait() == 1
    assert up.output.count("half a line") == 2  # once as it came, once as the reason
    assert "worker:0 | last words\n" in up.output
    assert "psclust:   last words\n" in up.output
    assert "bytes for which there was no room: " in up.output


def test_a_run_folder_that_cannot_be_written_is_a_sentence(bed: CommandBed, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bed.write("script.py", "")
    code, said = bed.run("up", "--run-dir", str(tmp_path / "file"), "script.py")
    assert code == 3
    assert "Traceback" not in said
    assert str(tmp_path / "file") in said
