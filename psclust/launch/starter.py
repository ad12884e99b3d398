"""What `psclust init --from train.py` fills in: the script's way to learn its role, read from its
source."""

from __future__ import annotations

import os
from pathlib import Path

from psclust.errors import UsageError
from psclust.launch.program_sources import sources_of
from psclust.plan.script_facts import CLASSIC_FLAGS, flag_name, psclust_programs, read_facts
from psclust.spec.jobs import COORDINATOR
from psclust.spec.starter_file import Starter


def look_at(name: str, script: str) -> tuple[Starter, str]:
    """A cluster file's contents for `script`, and a sentence that says why. Raises UsageError if it
    cannot be read."""
    sources = sources_of(script, Path(), os.environ.get("PYTHONPATH", ""))
    if not sources:
        raise UsageError(
            f"--from {script}: there is no such file here, or it cannot be read; "
            "name a Python script."
        )
    facts = read_facts(sources)
    if programs := psclust_programs(sources[0]):
        module = Path(script).with_suffix("").as_posix().replace("/", ".")
        return Starter(
            name, f"{module}:{programs[0]}"
        ), f"{script} makes a psclust.Program: in-graph or between-graph is one word in the file"
    if facts.coordinates and not facts.starts_servers:
        return Starter(
            name, script, replication=COORDINATOR
        ), f"{script} coordinates workers: its chief alone runs it (replication: {COORDINATOR})"
    classic = [flag for flag in facts.flags if flag_name(flag) in CLASSIC_FLAGS]
    if len(classic) == len(CLASSIC_FLAGS) and not facts.reads_tf_config:
        return Starter(
            name, script, role_by="flags"
        ), f"{script} defines {', '.join(facts.flags)}: each task gets them (role_by: flags)"
    if len(classic) > 1:
        # `flags` would also give those that it does not know.
        what = ", ".join(facts.flags) + (" and reads TF_CONFIG" if facts.reads_tf_config else "")
        return Starter(
            name, script
        ), f"{script} defines {what}: each task gets that (role_by: auto)"
    if facts.may_read_role:
        return Starter(
            name, script, role_by="tf_config"
        ), f"{script} reads its role from TF_CONFIG: each task gets it (role_by: tf_config)"
    flags = ", ".join(f"--{flag}" for flag in CLASSIC_FLAGS)
    return Starter(
        name, script
    ), f"{script} defines none of {flags} and does not read TF_CONFIG; see role_by in the file"
