"""The exact words for every way of getting a cluster file wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from written_files import mistakes, write

BROKEN = Path(__file__).parent / "broken"


# The whole file -> the whole message, less the file's name in front of each line.
MISTAKES = {
    "name: a b": (
        "1: name: found the text 'a b'; write a name of at most 63 letters, digits, '.', "
        "'_' and '-', such as mnist-2."
    ),
    "replicaton: in-graph": "1: replicaton: unknown key; did you mean replication?",
    "recovery-wait: 3": "1: recovery-wait: unknown key; did you mean recovery_wait?",
    "worker: 2": (
        "1: worker: unknown key; a job stands indented under jobs: worker, with its count."
    ),
    "num_ps: 2": "1: num_ps: unknown key; a job stands indented under jobs: ps, with its count.",
    "sync: .": (
        "1: sync: unknown key; write ship (the folder to send to hosts) or update: "
        "sync (synchronous training) instead."
    ),
    "ship: missing": "1: ship: FOLDER/missing: there is no such folder; check the name.",
    "name: x\nship: cluster.yaml": (
        "2: ship: FOLDER/cluster.yaml: this is a file; name the folder it is in."
    ),
    "env_file: .evn": "1: env_file: FOLDER/.evn: there is no such file; check the name.",
    "pass_env: [A=1]": (
        "1: pass_env[0]: found the text 'A=1'; write a variable's name, "
        "or a pattern of names such as WANDB_*."
    ),
    "pass_env: HF_TOKEN": "1: pass_env: found the text 'HF_TOKEN'; write a list: [HF_TOKEN].",
    "ssh: {parallel: 0}": "1: ssh.parallel: found 0; write a whole number from 1 to 256.",
    "ssh: me@host": (
        "1: ssh: found the text 'me@host'; write a mapping with keys such as parallel, deadline."
    ),
    "slurm: {time: [1]}": "1: slurm.time: found a list; write a time limit such as 4:00:00.",
    "slurm: {nodes: 0}": (
        "1: slurm.nodes: found 0; write a whole number, 1 or more, or a list such as [1, 4]."
    ),
    "gpus: 1": (
        "1: gpus: unknown key; gpus belongs to a job: write it indented under that job, "
        "as jobs.worker.gpus."
    ),
    "deadlines: {zzz: 1}": (
        "1: deadlines.zzz: unknown key; known here are "
        "start, stop, finish, run, run_exit_code, progress, lease, detached."
    ),
    "jobs: {ps: {cuont: 2}}": "1: jobs.ps.cuont: unknown key; did you mean count?",
    "jobs: {ps: {update: sync}}": (
        "1: jobs.ps.update: unknown key; update belongs to the whole file: "
        "write it without indentation."
    ),
    "jobs: {ps: {command: a}}": "1: jobs.ps.command: unknown key; write run: [a] instead.",
    "jobs: {ps: {script: python ps.py --x 1}}": (
        "1: jobs.ps.script: unknown key; write run: [python, ps.py, --x, 1] instead."
    ),
    "jobs: {ps: {program: ps.py}}": (
        "1: jobs.ps.program: unknown key; program belongs to the whole file: "
        "write it without indentation, or for this job alone run: [python, ps.py]."
    ),
    "jobs: {ps: {program: [./serve, 1]}}": (
        "1: jobs.ps.program: unknown key; program belongs to the whole file: "
        "write it without indentation, or for this job alone run: [./serve, 1]."
    ),
    "jobs: {ps: {role_by: none}}": (
        "1: jobs.ps.role_by: unknown key; role_by belongs to the whole "
        "file: write it without indentation, or "
        'for this job alone placeholders in args, such as "--task={task_index}".'
    ),
    "jobs: {ps: {replication: coordinator}}": (
        "1: jobs.ps.replication: unknown key; replication belongs to the whole file: "
        "write it without indentation, or for this job alone run: program or run: server."
    ),
    "jobs: {ps: {hostfile: h}}": (
        "1: jobs.ps.hostfile: unknown key; hostfile belongs to the whole file: "
        "write it without indentation, or for this job alone hosts: [node1]."
    ),
    "run: train.py": (
        "1: run: unknown key; run belongs to a job: write it indented under that job, "
        "as jobs.worker.run, or for all jobs program."
    ),
    "jobs: {PS: 1}": (
        "1: jobs.PS: found the key 'PS'; write a job's name in small letters, digits and _, "
        "such as ps or worker."
    ),
    "jobs: 3": "1: jobs: found 3; write a mapping such as {ps: 1, worker: 2}.",
    "jobs: {ps: two}": (
        "1: jobs.ps: found the text 'two'; write a whole number from 0 to 4096, "
        "or a mapping with keys such as count, hosts, gpus."
    ),
    "jobs: {ps: -1}": "1: jobs.ps.count: found -1; write a whole number from 0 to 4096.",
    "jobs: {ps: true}": (
        "1: jobs.ps: found true; write a whole number from 0 to 4096, "
        "or a mapping with keys such as count, hosts, gpus."
    ),
    "jobs: {ps: {gpus: true}}": "1: jobs.ps.gpus: found true; write a whole number, 0 or more.",
    "jobs: {ps: {count: null}}": (
        "1: jobs.ps.count: found null; write a whole number from 0 to 4096."
    ),
    "jobs: {ps: {ports: http}}": (
        "1: jobs.ps.ports: found the text 'http'; write auto, a port such as 2222, "
        "or a range such as 2300-2399."
    ),
    "jobs: {ps: {addresses: [localhost]}}": (
        "1: jobs.ps.addresses[0]: found the text 'localhost'; "
        "write host:port, such as 127.0.0.1:2222."
    ),
    "jobs: {ps: {addresses: ['[::1]:7922']}}": (
        "1: jobs.ps.addresses[0]: found the text '[::1]:7922'; write the host's name or its IPv4 "
        "address, such as 127.0.0.1:7922; IPv6 addresses are not supported."
    ),
    "jobs: {ps: {addresses: ['grpc://localhost:7922']}}": (
        "1: jobs.ps.addresses[0]: found the text 'grpc://localhost:7922'; "
        "write localhost:7922, without grpc://."
    ),
    "metrics: '[::]:9400'": (
        "1: metrics: found the text '[::]:9400'; write the host's name or its IPv4 address, "
        "such as 127.0.0.1:9400; IPv6 addresses are not supported."
    ),
    "jobs: {ps: {hosts: []}}": (
        "1: jobs.ps.hosts: found an empty list; write a text, or a list such as [node1, node2]."
    ),
    "jobs: {ps: {ok_exit_codes: [256]}}": (
        "1: jobs.ps.ok_exit_codes[0]: found 256; write a whole number from 0 to 255."
    ),
    "jobs: {ps: {task_args: {one: [a]}}}": (
        "1: jobs.ps.task_args.one: found the key 'one'; write a task's index, such as 0."
    ),
    "jobs: {ps: {task_args: [a]}}": (
        "1: jobs.ps.task_args: found a list; write a mapping such as {0: [--verbose]}."
    ),
    "jobs: {ps: {run: [a, {b: 1}]}}": "1: jobs.ps.run[1]: found a mapping; write a text.",
    "jobs: {ps: {restart: never}}": (
        "1: jobs.ps.restart: found the text 'never'; "
        "write a mapping with keys such as when, max, window."
    ),
    "program: a.py\nargs: --lr 0.1 --x={ps_hosts}": (
        "2: args: found the text '--lr 0.1 --x={ps_hosts}'; write a list: "
        "[--lr, 0.1, '--x={ps_hosts}']."
    ),
    "program: a.py\nargs:\n  - a\n  - {b: 1}": "4: args[1]: found a mapping; write a text.",
    "program: ''": (
        "1: program: found an empty text; write a text, or a list such as [./serve, --verbose]."
    ),
    "python: ''": "1: python: found an empty text; write a text.",
    'update: "a\\n\\e[31m"': "1: update: found the text 'a\\n\\x1b[31m'; write sync or async.",
    "update: snyc": "1: update: found the text 'snyc'; write sync or async (did you mean sync?).",
    "ends_with: chef": (
        "1: ends_with: found the text 'chef'; write auto, chief, workers, all or never, "
        "or a list such as [worker, chief] (did you mean chief?)."
    ),
    "preload: yes": "1: preload: found the text 'yes'; write true or false.",
    "recovery_wait: true": (
        "1: recovery_wait: found true; write seconds, or a time such as 90s, 10m or 2h, or false."
    ),
    "deadlines: {run: soon}": (
        "1: deadlines.run: found the text 'soon'; write seconds, or a time such as 90s, 10m or 2h."
    ),
    "deadlines: {run: -1}": (
        "1: deadlines.run: found -1; write seconds, or a time such as 90s, 10m or 2h."
    ),
    "restart: {when: always}": (
        "1: restart.when: found the text 'always'; write never, signal or failure."
    ),
    "on_ps_failure: restart-worker": (
        "1: on_ps_failure: found the text 'restart-worker'; write restart-ps, restart-all or fail."
    ),
    "on_worker_failure: never": (
        "1: on_worker_failure: found the text 'never'; write restart-worker, restart-all or fail."
    ),
    "env: {A B: 1}": (
        "1: env.A B: found the key 'A B'; write a variable's name without = or blanks."
    ),
    "env: {A: [1]}": "1: env.A: found a list; write a text.",
    "env: [A=1]": "1: env: found a list; write a mapping such as {LEVEL: 2}.",
    "hosts: []": "1: hosts: found an empty list; write a text, or a list such as [a:2, b:2].",
    "hosts: 4": "1: hosts: '4': a host's name is wanted here, not a number.",
    "hosts: [{slots: 4}]": "1: hosts[0]: the key 'name' is missing; write a text.",
    "hosts: [{name: a, slots: 0}]": "1: hosts[0].slots: found 0; write a whole number, 1 or more.",
    "hosts: [{name: 'a:4'}]": (
        "1: hosts[0]: 'a:4': in a mapping, user, slots and port have keys of their own; "
        "leave only the host in name."
    ),
    "hosts: a\nhostfile: b": "2: hostfile: `hosts` says the same thing; keep one of the two.",
    "hosts:\n  - a:2\n  - b\n  - a:3\n": (
        "4: hosts[2]: 'a:3': a is listed already in FILE:2; name each host once, "
        "with all its slots: a slots=5"
    ),
    "- ps": (
        " found a list where the file should hold keys; write keys such as `name: "
        "...` and `jobs: ...`."
    ),
    "ps:2": (
        " found the text 'ps:2' where the file should hold keys; write keys such as `name: "
        "...` and `jobs: ...`. A blank must follow the colon."
    ),
    "": (
        " the file is empty; write at least `jobs:`, "
        "or let `psclust init` write a file to start from."
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_where_what_and_what_to_do(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert mistakes(path) == [
        f"{path}:{MISTAKES[text]}".replace("FILE", str(path)).replace("FOLDER", str(tmp_path))
    ]


@pytest.mark.parametrize("source", sorted(BROKEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_all_mistakes_of_a_file_come_at_once_in_its_order(source: Path) -> None:
    found = "".join(f"{line.removeprefix(f'{BROKEN}{os.sep}')}\n" for line in mistakes(source))
    golden = source.with_suffix(".txt")
    if os.environ.get("PSCLUST_GOLDEN") == "write":
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
