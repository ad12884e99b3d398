"""The commented cluster file that `psclust init` writes, with the keys that most people change."""

from __future__ import annotations

import shlex

from psclust.spec.cluster_file import clean_name
from psclust.spec.program_command import split_program
from psclust.spec.spelling import inline

_TEMPLATE = """\
# A TensorFlow parameter-server cluster. `psclust plan` shows what would run, `psclust up` runs it.
# Every key with its meaning: `psclust schema`. Flags win over this file: psclust up --workers 4 --sync
name: {name}

# How many tasks each job has. A mapping sets more: worker: {{count: 2, gpus: 1, env: {{LEVEL: debug}}}}
jobs:
  ps: 1
  worker: 2

# The program: train.py, `-m package.train`, module:program (a psclust.Program), or a command as a list.
# Without one, psclust starts bare servers for a notebook to dial.
{program}
# args: [--epochs, 10, "--data={{run_dir}}/data"]

# How a script learns its role: flags (--ps_hosts --worker_hosts --job_name --task_index), tf_config, or
# none; auto follows its source, unless args or env hold it: {{job_name}} {{task_index}} {{ps_hosts}} {{cluster}} ...
# role_by: auto

# between-graph: each worker builds its graph; in-graph: one client builds one graph for all (module:program);
# coordinator: a script whose chief alone runs code.
# replication: between-graph
# update: async               # or sync: a step waits for every worker
# max_staleness: 10           # async: a worker more steps ahead of the slowest waits
# placement: balanced         # spread variables over the ps by bytes; `psclust plan` shows where each goes

# The hosts; default: this machine. A number after a host is how many tasks it takes.
# hosts: node1:2, user@node2:2, node[03-04]:1
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


def render_init(name: str, program: str | None) -> str:
    """A cluster file for a cluster of this name, made valid, that runs `program`; None leaves the program to be filled in."""
    words = split_program(program or "")
    given = words[0] if len(words) == 1 else shlex.split(program or "")
    line = f"program: {inline(given)}" if given else "# program: train.py"
    return _TEMPLATE.format(name=clean_name(name), program=line)
