"""Makes docs/pictures/report.png again: trains the digits, kills a worker on the way, and opens the
report in Chromium.

python docs/report_picture.py
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

from psclust.rundir.samples_file import read_samples
from psclust.testing.wait import wait_until

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.browser import browser
from beds.command import CommandBed

TARGET = Path(__file__).parent / "pictures" / "report.png"
WIDTH, HEIGHT = 1000, 740


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        bed = CommandBed(Path(name) / "digits")
        bed.folder.mkdir()
        up = bed.start(
            "up",
            "--ps",
            "2",
            "--workers",
            "2",
            "psclust.examples.digits:program",
            "--set",
            "epochs=40",
        )

        def steps() -> int:
            return max(
                (
                    task.step or 0
                    for look in read_samples(bed.run_folder().samples)
                    for task in look.tasks.values()
                ),
                default=0,
            )

        wait_until(lambda: steps() > 300, what="some steps")
        os.kill(bed.wait_for("worker:1", "running").pid or 0, signal.SIGKILL)
        assert up.wait() == 0, up.output
        assert bed.run("report")[0] == 0
        with browser(Path(name) / "profile") as window:
            window.open(bed.folder / "digits-report.html", width=WIDTH)
            window.picture(TARGET, width=WIDTH, height=HEIGHT)


if __name__ == "__main__":
    main()
