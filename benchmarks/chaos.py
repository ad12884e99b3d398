"""Random faults on every process of a training, and whether psclust keeps what it promises.

    python benchmarks/chaos.py --seed 1 --minutes 60 [--only local] [--tally FILE]
    python benchmarks/chaos.py --seed 1 --case 17

Each case is drawn by its seed and number alone and printed as one line, whose first words repeat
it. A case trains a small program for some seconds, makes one to three faults, and then checks
what docs/reliability.md lists. The folder of a run with a violation is kept, and named. `--page`
writes the table of the tally into docs/reliability.md.

As root, with what the tests of several hosts and of Slurm need; else only local cases are run. Exit
code 1: a violation.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from faults import checks, tally
from faults.cases import (
    BATCHES,
    FEATURES,
    LEASE_S,
    LOCAL,
    PLACES,
    PROGRESS_S,
    Case,
    draw,
)
from faults.disks import disks
from faults.grounds import Ground, ground
from faults.hitting import Done, Hitter

from beds.command import CommandBed, Running
from psclust.rundir.status import RunStatus
from psclust.testing.wait import wait_until

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_LEFT_S = 90.0  # for agents that have lost their supervisor: the lease, and some
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # ends the hosts and Slurm, too
        signal.signal(number, signal.default_int_handler)
    options = _options()
    if options.page:
        tally.write_page(PAGE, options.tally)
        return 0
    end = time.monotonic() + options.minutes * 60
    numbers = iter([options.case]) if options.case is not None else _count_from(options.first)
    faults = wrong = 0
    with ExitStack() as stack:
        grounds: dict[str, Ground] = {}
        for number in numbers:
            if time.monotonic() > end:
                break
            case = draw(options.seed, number)
            if options.only not in (None, case.place) or (case.place != LOCAL and os.geteuid()):
                continue
            if not any(options.fault in str(hit) for hit in case.hits):
                continue
            if case.place not in grounds:
                grounds[case.place] = stack.enter_context(ground(case.place))
            result = run_case(case, grounds[case.place], keep=options.keep)
            faults, wrong = faults + len(result.made), wrong + bool(result.wrong)
            if options.tally:
                tally.add(options.tally, case, result)
    print(f"{faults} faults, {wrong} runs with a violation")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--only", choices=sorted(set(PLACES)))
    parser.add_argument(
        "--fault", default="", help="only cases with such a fault: `KILL forwarder`"
    )
    parser.add_argument("--tally", type=Path, default=None, help="JSON file to add the results to")
    parser.add_argument("--keep", action="store_true", help="keep every run's folder")
    parser.add_argument("--page", action="store_true", help="write the table, run nothing")
    options = parser.parse_args()
    if options.page and options.tally is None:
        options.tally = PAGE.with_suffix(".json")
    return options


def _count_from(number: int) -> Iterator[int]:
    while True:
        yield number
        number += 1


def run_case(case: Case, place: Ground, *, keep: bool = False) -> tally.Found:
    """Run it once, print its line, and what is wrong."""
    print(case, flush=True)
    began = time.monotonic()
    bed = place.begin(case)
    model = place.model(case, bed)
    _write(case, place, bed, model)
    done: list[Done] = []
    wrong: list[str] = []
    code, first_s = None, 0.0
    with disks(case, place, bed, model):
        try:
            up = bed.start("up", *place.options())
            with forward_only(model) as watcher:
                hitter = Hitter(case, place, bed, up, model)
                done = hitter.run()
                code = up.wait(case.limit_s)
                first_s = time.monotonic() - began
                hitter.heal()
                wrong += _after(case, place, bed, up, model, done)
            wrong += watcher.backward
        except TimeoutError as error:
            why = bed.run_here("why")[1]
            wrong.append(f"not in time: {str(error)[-2000:]}\n{why}")
        for each in done:
            print(f"    {each.hit}: {each.how or each.why}")
        _keep_state(bed)
    result = tally.found(case, done, time.monotonic() - began, code, wrong)
    print(f"    {first_s:.0f} s, exit code {code}; {result.seconds:.0f} s in all", flush=True)
    for line in wrong:
        print(f"    VIOLATION: {line}", flush=True)
    place.clear(bed)
    if wrong or keep:
        print(f"    kept: {bed.folder.parent}", flush=True)
    else:
        shutil.rmtree(bed.folder.parent, ignore_errors=True)
    return result


def _write(case: Case, place: Ground, bed: CommandBed, model: Path) -> None:
    """The program and its cluster file."""
    config, keys = FEATURES[case.feature]
    jobs = {"ps": 2, "worker": keys.get("worker", 2)}
    jobs |= {"evaluator": 1} if "evaluator" in keys else {}
    more = {name: value for name, value in keys.items() if name not in ("worker", "evaluator")}
    settings = [word for each in config for word in ("--config", each)]
    shutil.copy(Path(__file__).parent / "faults" / "counted.py", bed.folder)
    data = {
        "jobs": jobs,
        "program": "counted:program",
        "args": ["--model-dir", str(model), "--set", f"batches={BATCHES}", *settings],
        "replication": case.replication,
        "update": case.update,
        "encrypt": case.encrypt,
        "restart": {"backoff": 0.1},
        "deadlines": {"stop": 5, "lease": LEASE_S, "progress": PROGRESS_S},
        **place.keys(),
        **more,
    }
    bed.write("psclust.yaml", json.dumps(data, indent=1))


def _after(
    case: Case, place: Ground, bed: CommandBed, up: Running, model: Path, done: list[Done]
) -> list[str]:
    """What is wrong after the run; if it failed as it may, after another `up` has gone on."""
    code, wrong = up.process.returncode, []
    promise = checks.promised(case, done)
    if code not in promise.codes:
        expected = " or ".join(map(str, sorted(promise.codes)))
        wrong.append(f"exit code {code}, not {expected}:\n{_end_of(up)}")
    elif code and promise.said is not None and not _says(up, promise.said):
        wrong.append(f"does not say {promise.said!r}:\n{_end_of(up)}")
    wrong += _left(place, bed)
    status = _status(bed)
    wrong += checks.cause(case, status, done)
    if code or (status is not None and not status.ok):
        again = bed.start("up", *place.options())
        if again.wait(case.limit_s):
            return [*wrong, f"the next `up` fails:\n{_end_of(again)}"]
        wrong += _left(place, bed)
    return [*wrong, *checks.trained(case, model, done)]


def _left(place: Ground, bed: CommandBed) -> list[str]:
    """What does not end by itself."""
    with suppress(TimeoutError):
        wait_until(lambda: not place.left(bed) and not bed.cluster().is_live(), _LEFT_S)
    taken = ["the run's name is still taken"] if bed.cluster().is_live() else []
    return [*taken, *(f"left: {each}" for each in place.left(bed))]


def _says(up: Running, pattern: str) -> bool:
    import re

    return re.search(pattern, up.output) is not None


def _end_of(up: Running) -> str:
    return "\n".join(f"        {line}" for line in up.output.splitlines()[-12:])


def _status(bed: CommandBed) -> RunStatus | None:
    folder = bed.cluster().current()
    with suppress(OSError, ValueError, KeyError):
        return RunStatus.from_json(folder.status.read_text()) if folder else None
    return None


def _keep_state(bed: CommandBed) -> None:
    """What is on a disk of its own, and would go with it."""
    if os.path.ismount(bed.state):
        shutil.copytree(
            bed.state,
            f"{bed.state}-kept",
            ignore_dangling_symlinks=True,
            ignore=shutil.ignore_patterns("*.sock", "filler"),
        )


class Watcher:
    """last: the step of a folder's latest checkpoint. backward: a line for each time that it went
    back."""

    def __init__(self, model: Path) -> None:
        self.last = -1
        self.backward: list[str] = []
        self._file = model / "checkpoint"

    def look(self) -> None:
        with suppress(OSError, ValueError, IndexError):
            first = self._file.read_text(encoding="utf-8").splitlines()[0]
            step = int(first.rstrip('"').rpartition("-")[2])
            if step < self.last:
                self.backward.append(f"the checkpoint of step {step} followed that of {self.last}")
            self.last = step


@contextmanager
def forward_only(model: Path) -> Iterator[Watcher]:
    """Look all the time."""
    watcher, over = Watcher(model), threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            watcher.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
