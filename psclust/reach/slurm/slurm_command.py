"""Calls Slurm's commands, and says what to do where they fail."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from psclust.errors import UsageError

_COMMAND_S = 60.0
_SAID = re.compile(r"^(sbatch: )?((error|allocation failure|fatal): )?")
# What Slurm says of a job that it refuses -> what to do about it.
_REMEDIES = (
    (r"account", "Name one of your accounts as slurm.account, or ask for access to it."),
    (r"partition", "Name another one as slurm.partition; `sinfo` lists them."),
    (r"time", "Write slurm.time as 4:00:00 or 2-12:00, within the partition's limit."),
    (
        r"node|processor|cpu|gres|gpu|memory",
        "Lower slurm.nodes, slurm.gpus or the count of tasks; `sinfo -Nl` shows what there is.",
    ),
    (r"", "Change slurm in the cluster file."),
)


def call(command: Sequence[str], environ: Mapping[str, str], stdin: str | None = None) -> str:
    """The command's output; `sbatch --test-only` prints on stderr. Raises UsageError."""
    name = command[0]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(
            f"there is no `{name}` on the PATH; call psclust on a login node of the Slurm cluster."
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"`{' '.join(command)}` did not end in {_COMMAND_S:g} s; is Slurm's controller up?"
        ) from None
    if done.returncode == 0:
        return done.stdout or done.stderr
    lines = [
        _SAID.sub("", line) for line in (done.stderr or done.stdout).splitlines() if line.strip()
    ]
    error = (lines or [f"exit code {done.returncode}"])[0].rstrip(".")
    if name != "sbatch":
        raise UsageError(f"`{' '.join(command)}` failed: {error}.")
    remedy = next(text for pattern, text in _REMEDIES if re.search(pattern, error, re.IGNORECASE))
    raise UsageError(f"Slurm refuses this job: {error}. {remedy}")
