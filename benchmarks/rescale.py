"""What it costs to train on more or fewer ps: `psclust scale ps=4` on four hosts, from 2 ps, and
back, with a gigabyte of variables.

    python benchmarks/rescale.py [--gbit 1] [--rounds 3]

The hosts are namespaces of this machine with links of so many Gbit/s, a real sshd in each. As root,
on an otherwise idle machine. "pause": seconds from the last step before to the first one after, as
the verb says. "the wire": what it would take to send each byte that has to move once, from and to
all hosts at the same time. "the checkpoint": what it takes the links to bring all variables to the
chief and back, which is how they move without `input: handed_out`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import rows
import runs
from wire import shape

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.hosts import HostBed, host_bed
from psclust.testing.wait import wait_until

NAME = "bench"
BYTES = 1 << 30
_PAUSE = re.compile(r"paused for ([\d.]+) s")


def main() -> None:
    parser = runs.parser(__doc__)
    parser.add_argument("--gbit", type=float, default=1.0)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("hosts are network namespaces: run it as root")
    bytes_s = options.gbit * 1e9 / 8
    # Half of them, from each of two hosts to each of two others.
    wire, checkpoint = BYTES / 4 / bytes_s, 2 * BYTES / bytes_s
    more: list[float] = []
    fewer: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder,
        host_bed(Path(folder) / "hosts", 4) as bed,
    ):
        shape(bed, options.gbit)
        for _ in range(options.rounds):
            pauses = measure(bed)
            more.append(pauses[0])
            fewer.append(pauses[1])
    found = [
        rows.Row("rescale", "1 GB, 2 to 4 ps", "pause", "s", more),
        rows.Row("rescale", "1 GB, 4 to 2 ps", "pause", "s", fewer),
    ]
    for row in found:
        print(
            f"{row.case}: pause {row.value:.1f} s; the wire {wire:.1f} s, "
            f"the checkpoint {checkpoint:.1f} s"
        )
    rows.write(options.json, found)


def measure(bed: HostBed) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as state:
        environ = {**os.environ, "HOME": str(bed.home), "PSCLUST_STATE": state}

        def psclust(*words: str) -> str:
            done = subprocess.run(
                [*runs.PSCLUST, *words],
                cwd=runs.TRAINING,
                env=environ,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                sys.exit(f"psclust {' '.join(words)}: {done.stdout}{done.stderr}")
            return done.stdout

        hosts = ",".join(host.name for host in bed.hosts)
        how = ["--input", "handed_out", "--no-encrypt", "--ps", "2", "--workers", "2"]
        psclust("up", "-d", "--name", NAME, "-H", hosts, *how, "heavy:program")
        try:
            wait_until(lambda: "step " in psclust("logs", NAME, "worker:0"), what="a step")
            pauses = [pause_of(psclust("scale", NAME, f"ps={count}")) for count in (4, 2)]
        finally:
            psclust("down", NAME)
    return pauses[0], pauses[1]


def pause_of(said: str) -> float:
    found = _PAUSE.search(said)
    if found is None:
        sys.exit(f"psclust scale: no pause in {said!r}")
    return float(found[1])


if __name__ == "__main__":
    main()
