"""An interpreter that stands in for the training of psclust programs: it knows the signals, counts
steps in a file, says that it trains RATE examples a second, and trains nothing. Bare servers run by
the real one."""

from __future__ import annotations

import sys
from pathlib import Path

from beds.command import CommandBed

_SOURCE = """#!{python}
import json, os, signal, sys, time
if sys.argv[1:3] != ["-m", "psclust.train"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
def end(word):
    def handle(number, frame):
        print(word, flush=True)
        time.sleep(float(os.environ.get("END_S", 0)))
        sys.exit(int(os.environ.get("END_CODE", 0)))
    return handle
signal.signal(signal.SIGUSR1, end("saved"))
signal.signal(signal.SIGUSR2, end("left"))
if os.path.exists("bad"):
    sys.exit("no such file")
workers = json.loads(os.environ["PSCLUST_CLUSTER"])["worker"]
print("knows", len(workers), "workers", flush=True)
while not os.path.exists("finish"):
    with open("steps", "ab") as steps:
        steps.write(b".")
        step = steps.tell()
    place = os.environ["PSCLUST_PROGRESS"]
    with open(place + ".new", "w") as file:
        rate = float(os.environ.get("RATE", 100))
        json.dump({{"step": step, "phase": "train", "examples_per_s": rate}}, file)
    os.replace(place + ".new", place)
    time.sleep(0.02)
"""


def stand_in(bed: CommandBed, keys: str) -> None:
    """Writes a cluster file of such a program; `keys`: more of the file."""
    script = interpreter(bed)
    bed.write(
        "psclust.yaml", f"program: standing:program\npreload: false\npython: {script}\n{keys}\n"
    )


def interpreter(bed: CommandBed) -> Path:
    """Where it is, beside the module `standing`."""
    script = bed.write("stand-in", _SOURCE.format(python=sys.executable))
    script.chmod(0o755)
    bed.write("standing.py", "program = None\n")
    return script
