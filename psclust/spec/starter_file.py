"""The commented cluster file that `psclust init` writes, with the keys that most people change."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from psclust.spec.cluster_file import clean_name
from psclust.spec.program_command import split_program
from psclust.spec.spelling import inline

# Beside the cluster file; editors read its name in the first line.
SCHEMA_FILE = ".psclust.schema.json"
_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# A TensorFlow parameter-server cluster. `psclust plan` shows what would run, `psclust up` runs it.
# Every key with its meaning: `psclust schema`. Flags win over this file: `up --workers 4 --sync`
name: {name}

# How many tasks a job has. A mapping has more: worker: {{count: 2, gpus: 1, env: {{LEVEL: debug}}}}
jobs:
  ps: {ps}
  worker: {workers}

# The program: train.py, `-m package.train`, module:program (a psclust.Program), or a command as a
# list. Without one, psclust starts bare servers for a notebook to dial.
{program}
# args: [--epochs, 10, "--data={{run_dir}}/data"]

# How a script learns its role: flags (--ps_hosts --worker_hosts --job_name --task_index), tf_config
# or none; auto follows its source, without flags that args hold: "--task={{task_index}}",
# "--cluster={{cluster}}" ...
{role}

# between-graph: each worker builds its graph; in-graph: one client builds one graph for all
# (module:program); coordinator: a script whose chief alone runs code.
{replication}
# update: async               # or sync: a step waits for every worker
# max_staleness: 10           # async: a worker more steps ahead of the slowest waits
# placement: balanced         # by bytes, or round_robin; `psclust plan` shows what each ps holds

# The hosts; default: this machine. A number after a host is how many tasks it takes.
{hosts}
# ports: 2300-2399            # default: any free ports
# ship: .                     # the folder to send to the hosts, without what .gitignore excludes

# kubernetes: {{image: registry.example.com/me/train:1}}   # what `psclust manifest` needs

# env: {{OMP_NUM_THREADS: 1}}
# pass_env: [HF_TOKEN]        # variables of your shell that tasks on other hosts get

# restart:
#   max: 3                    # restarts of a task within 10 minutes; one more ends the run
# deadlines:
#   start: 60s                # until every server answers
#   run: 2h                   # the whole run; no limit unless given
"""


@dataclass(frozen=True, slots=True)
class Starter:
    """The values to fill in. program: None leaves it to the user. hosts: empty for this machine.
    role_by, replication: None leaves the default."""

    name: str
    program: str | None = None
    ps: int = 1
    workers: int = 2
    hosts: str = ""
    role_by: str | None = None
    replication: str | None = None


def render_init(starter: Starter) -> str:
    """The cluster file; its name is made valid."""
    program = starter.program
    words = split_program(program or "")
    given = words[0] if len(words) == 1 else shlex.split(program or "")
    line = f"program: {inline(given)}" if given else "# program: train.py"
    return _TEMPLATE.format(
        schema=SCHEMA_FILE,
        name=clean_name(starter.name),
        program=line,
        ps=starter.ps,
        workers=starter.workers,
        role=f"role_by: {starter.role_by}" if starter.role_by else "# role_by: auto",
        replication=f"replication: {starter.replication}"
        if starter.replication
        else "# replication: between-graph",
        hosts=f"hosts: {inline(starter.hosts)}"
        if starter.hosts
        else "# hosts: node1:2, user@node2:2, node[03-04]:1",
    )
