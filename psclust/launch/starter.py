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
    facts, programs = read_facts(sources), psclust_programs(sources[0])
    classic = [flag for flag in facts.flags if flag_name(flag) in CLASSIC_FLAGS]
    role_by = replication = None
    if programs:
        why = "makes a psclust.Program: in-graph or between-graph is one word in the file"
        module = Path(script).with_suffix("").as_posix().replace("/", ".")
        return Starter(name, f"{module}:{programs[0]}"), f"{script} {why}"
    if facts.coordinates and not facts.starts_servers:
        replication = COORDINATOR
        why = f"coordinates workers: its chief alone runs it (replication: {COORDINATOR})"
    elif len(classic) == len(CLASSIC_FLAGS) and not facts.reads_tf_config:
        role_by = "flags"
        why = f"defines {', '.join(facts.flags)}: each task gets them (role_by: flags)"
    elif len(classic) > 1:
        # `flags` would also give those that it does not know.
        what = ", ".join(facts.flags) + (" and reads TF_CONFIG" if facts.reads_tf_config else "")
        why = f"defines {what}: each task gets that (role_by: auto)"
    elif facts.may_read_role:
        role_by = "tf_config"
        why = "reads its role from TF_CONFIG: each task gets it (role_by: tf_config)"
    else:
        flags = ", ".join(f"--{flag}" for flag in CLASSIC_FLAGS)
        why = f"defines none of {flags} and does not read TF_CONFIG; see role_by in the file"
    starter = Starter(name, script, role_by=role_by, replication=replication)
    return starter, f"{script} {why}"
