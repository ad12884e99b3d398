"""What a run looks like on a terminal, in a file, and where neither takes what is written."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from beds.command import CommandBed
from beds.terminal import Terminal, screen
from psclust.testing.wait import PATIENCE_S, wait_until

BAR = """
import os, sys, time
print("starts", flush=True)
for percent in range(0, 101, 5):
    print(f"\\r{percent} % of " + os.environ["PSCLUST_TASK"], end="", flush=True)
    time.sleep(0.02)
while not os.path.exists("finish"): time.sleep(0.02)
print("\\nends")
"""
HOSTILE = (
    'print("\\x1b[31mred\\x1b[0m \\x1b[2J\\x1b[?1049h\\x1b[?25l\\x1b]0;title\\x07 gr\\u00fcn '
    '\\u4e2d", flush=True)\n'
)
FILE = "jobs: {worker: 2}\nprogram: script.py\npreload: false\nrole_by: none\n"

# A view of three tasks, two of which draw bars: what a terminal shows after each part.
PARTS = """
from psclust.cli.live_view import LiveView
view = LiveView(["worker:0", "worker:1"])
view._drawn = -1
view.lines("worker:0", ["first\\n"], "10 %")
view.lines("worker:1", [], "x" * 200)
view.footer("the footer")
view.lines("worker:0", ["second\\n"], "20 %")
view.note("a note")
view.lines("worker:1", ["a very long line " * 10 + "\\n"], None)
"""


def terminal(bed: CommandBed, *args: str, columns: int = 100, **env: str) -> Terminal:
    clean = {name: value for name, value in bed.environment().items() if name != "NO_COLOR"}
    return Terminal(
        [*bed.command, *args],
        cwd=bed.folder,
        env={**clean, "TERM": "xterm", **env},
        columns=columns,
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("end", "bottom"), [("", ["worker:0 | 20 %", "the footer"]), ("view.close()", [""])]
)
def test_bars_and_the_footer_stay_below_all_lines(
    bed: CommandBed, end: str, bottom: list[str]
) -> None:
    view = Terminal(
        [sys.executable, "-c", PARTS + end],
        cwd=bed.folder,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
        columns=60,
    )
    assert view.wait() == 0, view.written
    long = "worker:1 | " + "a very long line " * 10
    wrapped = [long[at : at + 60] for at in range(0, len(long), 60)]
    assert view.screen == [
        "worker:0 | first",
        "worker:0 | second",
        "psclust: a note",
        *wrapped,
        *bottom,
    ]
    assert f"worker:1 | {'x' * 48}\x1b" not in view.written
    assert "x" * 48 in view.written


@pytest.mark.process
def test_progress_bars_of_several_tasks_are_one_line_each_on_a_terminal(bed: CommandBed) -> None:
    bed.write("psclust.yaml", FILE)
    bed.write("script.py", BAR)
    shown = terminal(bed, "up")
    wait_until(
        lambda: (
            {"worker:0 | 100 % of worker:0", "worker:1 | 100 % of worker:1"} <= set(shown.screen)
        ),
        what="both bars, redrawn",
    )
    assert sum(" % of " in line for line in shown.screen) == 2
    bed.write("finish", "")
    assert shown.wait() == 0, shown.written
    lines = shown.screen
    assert [
        sum(f"worker:{n} | {what}" in line for line in lines)
        for n in (0, 1)
        for what in ("starts", "100 %", "ends")
    ] == [1] * 6
    assert sum(" % of " in line for line in lines) == 2
    assert any("ended well" in line for line in lines[-5:])


@pytest.mark.process
@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_dumb_terminal_and_one_without_colors_get_no_sequences(
    bed: CommandBed, env: dict[str, str]
) -> None:
    bed.write("psclust.yaml", FILE)
    bed.write("script.py", BAR + HOSTILE)
    bed.write("finish", "")
    shown = terminal(bed, "up", **env)
    assert shown.wait() == 0, shown.written
    assert "\x1b" not in shown.written
    assert any(r"worker:1 | red \x1b[2J" in line for line in shown.screen)
    assert (
        sum("% of worker:1" in line for line in shown.screen) <= 2
    )  # one state in ten seconds, and the last one
    shown = terminal(bed, "ps", **env)
    assert shown.wait() == 0
    assert "\x1b" not in shown.written


@pytest.mark.process
@pytest.mark.parametrize("verb", ["up", "logs"])
def test_commands_to_the_terminal_are_escaped_and_colors_pass(bed: CommandBed, verb: str) -> None:
    bed.write("psclust.yaml", FILE)
    bed.write("script.py", HOSTILE + "raise SystemExit(3)")
    shown = terminal(bed, "up")
    assert shown.wait() == 1, shown.written
    if verb == "logs":
        shown = terminal(bed, "logs")
        assert shown.wait() == 0
    assert "\x1b[31mred\x1b[0m" in shown.written
    assert r"red \x1b[2J\x1b[?1049h\x1b[?25l\x1b]0;title\x07 grün 中" in "".join(
        shown.screen
    )  # no other command: `screen` refuses them


def test_the_screen_of_tests_refuses_what_it_does_not_know() -> None:
    assert screen("one\rtwo\nthree\x1b[A\r\x1b[Jfour", 80) == ["four"]
    with pytest.raises(AssertionError):
        screen("\x1b[?25l", 80)


# ---- a standard output that takes nothing


@pytest.fixture
def counter(bed: CommandBed) -> CommandBed:
    """Two workers that print for a while, then write a file each."""
    bed.write("psclust.yaml", FILE)
    lines = "for n in range(3000): print('line', n, 'gr\\u00fcn')\n"
    bed.write(
        "script.py",
        f"import os\n{lines}open(os.environ['PSCLUST_TASK'].replace(':', '-') "
        "+ '.done', 'w').close()\n",
    )
    bed.environ["PYTHONUTF8"] = "1"
    return bed


def shell(bed: CommandBed, line: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = " ".join(bed.command)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("psclust", command)],
        cwd=bed.folder,
        env=bed.environment(env),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize("line", ["psclust up >&-", "psclust up 2>&-", "psclust up >&- 2>&- <&-"])
def test_a_run_goes_on_when_nothing_can_be_shown(counter: CommandBed, line: str) -> None:
    done = shell(counter, line)
    assert done.returncode == 0, done.stderr
    assert "the run goes on" not in done.stderr
    _has_counted(counter, done.stderr)


@pytest.mark.process
@pytest.mark.parametrize("line", ["psclust up 2>said >/dev/full", "psclust up 2>said | head -1"])
def test_a_run_goes_on_when_what_it_shows_is_lost_and_says_so(
    counter: CommandBed, line: str
) -> None:
    # Its tasks end when that has been said.
    script, said = counter.folder / "script.py", counter.folder / "said"
    waits = (
        "import sys, time\nsys.stdout.flush()\n"
        "while 'the run goes on' not in open('said').read(): time.sleep(0.02)\n"
    )
    counter.write("script.py", script.read_text(encoding="utf-8") + waits)
    assert shell(counter, line).returncode == 0, said.read_text(encoding="utf-8")
    _has_counted(counter, said.read_text(encoding="utf-8"))


def _has_counted(counter: CommandBed, said: str) -> None:
    assert "Traceback" not in said
    assert all((counter.folder / f"worker-{n}.done").exists() for n in (0, 1))
    assert counter.log("worker:1") == "".join(f"line {n} grün\n" for n in range(3000))
    assert counter.status().ok


@pytest.mark.process
@pytest.mark.parametrize(
    "env", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}]
)
def test_what_an_encoding_lacks_is_escaped(bed: CommandBed, env: dict[str, str]) -> None:
    words = [
        sys.executable,
        "-c",
        (
            "import sys; sys.stdout.buffer.write(b'gr\\xc3\\xbcn \\xff\\n'); "
            "sys.stdout.flush(); sys.exit(3)"
        ),
    ]
    up = [*bed.command, "up", "--ps", "0", "--workers", "1", "--name", "b", "--", *words]
    environ = bed.environment({**env, "PYTHONUTF8": "0"})
    done = subprocess.run(
        up, cwd=bed.folder, env=environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert r"worker:0 | gr\xfcn \ufffd" in done.stdout
    assert r"psclust:   gr\xfcn \ufffd" in done.stderr
    assert bed.done("logs", env={**env, "PYTHONUTF8": "0"}) == "worker:0 | gr\\xfcn \\ufffd\n"


@pytest.mark.long
@pytest.mark.process
def test_a_verb_that_cannot_show_what_it_is_there_to_show_says_so(counter: CommandBed) -> None:
    assert shell(counter, "psclust up -d >/dev/full").returncode == 0
    counter.wait_for_end()
    for line in (
        "psclust ps",
        "psclust ps --json",
        "psclust logs",
        "psclust clusters",
        "psclust plan",
        "psclust schema",
        "psclust --help",
    ):
        full = shell(counter, f"{line} >/dev/full")
        assert (line, full.returncode) == (line, 1)
        assert (
            full.stderr == "psclust: standard output cannot be written (No space left on device)\n"
        )
        closed = shell(counter, f"{line} >&-")
        assert (line, closed.returncode, closed.stderr) == (line, 0, "")
    reader_left = shell(counter, "psclust logs | head -1")
    assert (reader_left.returncode, reader_left.stderr) == (141, "")
    assert reader_left.stdout == "worker:0 | line 0 grün\n"
    assert shell(counter, "psclust init -f new.yaml >/dev/full").returncode == 0


@pytest.mark.process
def test_logs_that_nobody_reads_any_more_end_while_the_run_goes_on(bed: CommandBed) -> None:
    bed.write("psclust.yaml", FILE)
    bed.write(
        "script.py",
        "import os, time\nprint('here', flush=True)\n"
        "while not os.path.exists('finish'): time.sleep(0.02)\n",
    )
    bed.done("up", "-d")
    assert shell(bed, "psclust logs -f | head -1").returncode == 141
    assert shell(bed, "psclust attach | head -1").returncode == 141
    bed.write("finish", "")
    bed.wait_for_end()


@pytest.mark.process
def test_up_answers_term_while_nobody_reads_what_it_writes(bed: CommandBed) -> None:
    bed.write("psclust.yaml", FILE)
    bed.write(
        "script.py", "import time\nwhile True: print('x' * 1000, flush=True); time.sleep(0.0005)\n"
    )
    command = [*bed.command, "up"]
    up = subprocess.Popen(
        command,
        cwd=bed.folder,
        env=bed.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: len(bed.log("worker:0")) > 1_000_000, what="more than a pipe holds")
        up.terminate()
        assert up.wait(PATIENCE_S) == 143
    finally:
        up.kill()
        up.communicate()


@pytest.mark.long
@pytest.mark.process
def test_a_task_that_never_ends_its_line_does_not_fill_the_memory_of_up(bed: CommandBed) -> None:
    bed.write("psclust.yaml", FILE.replace("worker: 2", "worker: 1"))
    bed.write(
        "script.py",
        "import sys, time\nwhile True: sys.stdout.write('x' * 100_000); time.sleep(0.0005)\n",
    )
    up = bed.start("up")
    log = wait_until(
        lambda: next(iter((bed.run_folder().path / "logs").glob("worker-0.*")), None),
        what="the log",
    )
    assert log is not None

    def memory() -> int:
        return psutil.Process(up.process.pid).memory_info().rss

    wait_until(lambda: log.stat().st_size > 10_000_000, what="10 MB")
    before = memory()
    wait_until(lambda: log.stat().st_size > 150_000_000, what="150 MB")
    assert memory() - before < 30_000_000
    up.process.terminate()
    assert up.wait(300) == 143
    assert "stopping; once more to stop now" in up.output
