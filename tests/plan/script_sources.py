"""Sources of scripts that learn their role in one way or another, or not at all."""

from __future__ import annotations

ALL = ("--ps_hosts", "--worker_hosts", "--job_name", "--task_index")
CLASSIC = "".join(f'p.add_argument("{flag}")\n' for flag in ALL)
READS = 'import os\ntold = os.environ["TF_CONFIG"]\n'
SILENT = "print('hello')\n"
