"""What the parts of a file say of each other: every contradiction with its whole message, and what
is allowed beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_files import mistakes, write

from psclust.spec.load import load

CONTRADICTIONS = {
    # tasks
    "jobs: {ps: 0}": (
        "1: jobs: there is no task to start; give a job a count of 1 or more, "
        "for example worker: 2."
    ),
    "jobs:\n  a: {count: 2, task_args: {2: [--x]}}": (
        "2: jobs.a.task_args.2: there is no a:2: the last task is a:1; indices begin at 0."
    ),
    "jobs:\n  a: 1\n  b: {count: 0, task_env: {0: {X: 1}}}": (
        "3: jobs.b.task_env.0: there is no b:0: the job has no task."
    ),
    "ends_with: [wroker]": (
        "1: ends_with[0]: no task belongs to a job 'wroker'; did you mean worker?"
    ),
    "ends_with: [chief]": (
        "1: ends_with[0]: no task belongs to a job 'chief'; the jobs are ps, worker."
    ),
    "on_ps_failure: restart-all\nrestart: {when: never}": (
        "1: on_ps_failure: restart-all starts all tasks of the cluster again, and those of ps, "
        "worker are to be started once only (restart: when: never); remove one of the two."
    ),
    "on_worker_failure: restart-all\njobs: {ps: 1, worker: {restart: {when: never}}}": (
        "1: on_worker_failure: restart-all starts all tasks of the cluster again, and those of "
        "worker are to be started once only (restart: when: never); remove one of the two."
    ),
    # programs
    "args: [--x]": "1: args: there is no program to take these arguments; name it under program.",
    "jobs: {ps: {run: program}}": (
        "1: jobs.ps.run: the file names no program; write one under program, "
        "or give this job a command: run: [...]."
    ),
    "program: a.py\njobs:\n  ps: {run: server, args: [--x]}": (
        "3: jobs.ps.args: run: server starts a bare TensorFlow server, which takes no arguments; "
        "remove them, or write run: program."
    ),
    "program: a.py\njobs:\n  ps: {run: [./serve], extra_args: [--x]}": (
        "3: jobs.ps.extra_args: this job has a command of its own; "
        "write its arguments there, under run."
    ),
    "program: train.py --lr 0.1": (
        "1: program: found several words, 'train.py --lr 0.1'; "
        "write program: train.py and args: [--lr, 0.1], or the whole command as a list."
    ),
    "program: python3 -m a.b --x={task_index}": (
        "1: program: found several words, 'python3 -m a.b --x={task_index}'; "
        "write program: -m a.b and args: ['--x={task_index}'], or the whole command as a list."
    ),
    "program: -m": "1: program: found '-m'; write train.py, module:program, or -m and a module.",
    "program: a.py\nreplication: in-graph": (
        "2: replication: in-graph needs a psclust program (module:program); "
        "for a script of your own write coordinator, whose chief drives bare ps and worker servers."
    ),
    "program: a.b:c\nreplication: coordinator": (
        "2: replication: coordinator is for scripts; a psclust program (module:program) "
        "runs in-graph or between-graph."
    ),
    "program: a:b\njobs: {worker: 1}": (
        "2: jobs: a psclust program needs at least one ps and there is none; write ps: 1 or more."
    ),
    "program: a:b\njobs: {ps: 1, wokrer: 1}": (
        "2: jobs: a psclust program needs at least one worker and there is none; "
        "did you mean worker where it says wokrer?"
    ),
    "program: [a:b]\njobs: {ps: 1, worker: 0}": (
        "2: jobs.worker.count: a psclust program needs at least one worker; write 1 or more."
    ),
    "program: a:b\nreplication: in-graph\njobs:\n  ps: 1\n  worker: 1\n  master: 1": (
        "6: jobs.master: an in-graph program has one client, "
        "which psclust adds by itself; remove this job."
    ),
    # what has no effect
    "program: a.py\nupdate: sync": (
        "2: update: only a psclust program (module:program) uses this, and a.py is none; remove it."
    ),
    "program: a.py\nplacement: balanced": (
        "2: placement.policy: only a psclust program (module:program) "
        "uses this, and a.py is none; remove it."
    ),
    "backup_workers: 1": (
        "1: backup_workers: only a psclust program (module:program) "
        "uses this, and there is none; remove it."
    ),
    "program: a:b\nrole_by: flags": (
        "2: role_by: a psclust program learns its role from psclust itself; remove this."
    ),
    # who waits for whom
    "program: a:b\nbackup_workers: 1": (
        "2: backup_workers: asynchronous workers never wait; remove it, or write update: sync."
    ),
    "program: a:b\nupdate: sync\nreplication: in-graph\nbackup_workers: 1": (
        "4: backup_workers: an in-graph step is one run of all towers, "
        "and none can be late by itself; remove it, or write replication: between-graph."
    ),
    "program: a:b\nupdate: sync\nbackup_workers: 3\njobs: {ps: 1, chief: 1, worker: 2}": (
        "3: backup_workers: 3 of 3 workers as backup leave no gradient to wait "
        "for; write 2 or less."
    ),
    "program: a:b\nupdate: sync\nbackup_workers: 1\njobs: {ps: 1, worker: 1}": (
        "3: backup_workers: 1 of 1 workers as backup leave no gradient to wait for; "
        "it takes two workers; remove it, or raise jobs.worker."
    ),
    "program: a:b\nupdate: sync\nmax_staleness: 3": (
        "3: max_staleness: synchronous workers are never ahead; remove it, or write update: async."
    ),
    "program: train.py\ninput: handed_out": (
        "2: input: only a psclust program (module:program) uses this, and train.py is none; "
        "remove it."
    ),
    "program: a:b\njobs: {ps: 1, worker: {count: 2, min: 1}}": (
        "2: jobs.worker.min: only the workers of a psclust program with `input: handed_out` may be "
        "fewer or more while it trains; remove it."
    ),
    "program: a:b\ninput: handed_out\njobs: {ps: {count: 1, max: 2}, worker: 2}": (
        "3: jobs.ps.max: only the workers of a psclust program with `input: handed_out` may be "
        "fewer or more while it trains; remove it."
    ),
    "program: a:b\ninput: handed_out\njobs: {ps: 1, worker: {count: 1, min: 2}}": (
        "3: jobs.worker.count: found 1, fewer than min: 2; write 2 or more."
    ),
    "program: a:b\ninput: handed_out\njobs: {ps: 1, worker: {count: 3, max: 2}}": (
        "3: jobs.worker.count: found 3, more than max: 2; write 2 or less."
    ),
    "program: a:b\ninput: handed_out\njobs: {ps: 1, worker: {min: 3, max: 2}}": (
        "3: jobs.worker.min: 3 is more than max: 2; write a smaller one."
    ),
    "program: a:b\ninput: handed_out\njobs: {ps: 1, worker: {addresses: ['a:1'], max: 2}}": (
        "3: jobs.worker.max: the workers have `addresses`, one for each; remove one of the two."
    ),
    "program: a:b\ninput: handed_out\nupdate: sync\nreplace_slow: 3x": (
        "4: replace_slow: only asynchronous between-graph workers of a psclust program with "
        "`input: handed_out` change places while they train; remove it."
    ),
    # room
    "program: a:b\ninput: handed_out\nhosts: a:1,b:1\njobs: {ps: 1, worker: {min: 2, max: 9}}": (
        "4: jobs.worker.count: 2 workers and 1 ps need 3 slots; the hosts offer 2 (a: 1, b: 1). "
        "Lower the count or raise slots."
    ),
    "hosts: a:2,b:2\njobs: {ps: 1, worker: 4}": (
        "2: jobs.worker.count: 4 workers and 1 ps need 5 slots; the hosts offer 4 (a: 2, b: 2). "
        "Lower the count or raise slots."
    ),
    "hosts: 'n[1-10]:1'\njobs: {ps: 11}": (
        "2: jobs.ps.count: 11 ps need 11 slots; the hosts offer 10 (n1: 1, n2: 1, n3: 1, n4: "
        "1, n5: 1, n6: 1, n7: 1, n8: 1 and 2 more). Lower the count or raise slots."
    ),
    "hosts: a:3\nprogram: a:b\nreplication: in-graph\njobs: {ps: 1, worker: 2}": (
        "4: jobs.worker.count: 2 workers, 1 ps and 1 client need 4 slots; the hosts offer 3 (a: "
        "3). Lower the count or raise slots."
    ),
    "hosts: node1,node2\njobs:\n  ps: {hosts: [node1, nod2]}": (
        "3: jobs.ps.hosts[1]: 'nod2' is not one of the hosts; did you mean node2?"
    ),
    "jobs:\n  ps: {hosts: [node1]}": (
        "2: jobs.ps.hosts[0]: 'node1' is not one of the hosts; the file lists no hosts, "
        "so everything runs on this machine; list node1 under hosts, or write localhost."
    ),
    "hosts: a:2,b:9\njobs:\n  ps: {count: 2, hosts: [a]}\n  worker: {count: 3, hosts: [a, b]}": (
        "3: jobs.ps.hosts: 2 ps and 2 workers are pinned to a, which has 2 slots. "
        "Lower the count, raise slots, or pin to more hosts."
    ),
    # addresses and ports
    "jobs:\n  ps:\n    count: 2\n    addresses: ['a:1']": (
        "3: jobs.ps.count: 2 tasks but 1 address; give each task one, or leave the count out."
    ),
    "jobs:\n  ps: {addresses: ['a:0']}": (
        "2: jobs.ps.addresses[0]: found 'a:0'; ports run from 1 to 65535."
    ),
    "jobs:\n  ps: {addresses: ['a:1'], ports: 1}": (
        "2: jobs.ps.ports: the addresses have ports already; keep one of the two."
    ),
    "jobs:\n  ps: {addresses: ['localhost:2222']}\n  worker: {count: 2, ports: 2221}": (
        "3: jobs.worker.ports: ps:0 and worker:1 would both listen on 127.0.0.1:2222; "
        "give the jobs different ports, or write auto."
    ),
    "jobs:\n  ps: {addresses: ['a:1']}\n  worker: {addresses: ['b:1', 'a:1']}": (
        "3: jobs.worker.addresses[1]: ps:0 and worker:1 would both listen on a:1; "
        "give one of them another port."
    ),
    "ports: 2222": (
        "1: ports: ps:0 and worker:0 would both listen on 127.0.0.1:2222; "
        "give each job ports of its own, or write a range such as 2222-2299."
    ),
    "tensorboard: true\nprogram: a.py": (
        "1: tensorboard: the folder of event files is known of psclust programs alone; "
        "write where this one has them, such as tensorboard: logs."
    ),
    "metrics: 70000": "1: metrics: found 70000; ports run from 1 to 65535.",
    "metrics: all": (
        "1: metrics: found the text 'all'; write a port such as 9400, "
        "or address:port such as 0.0.0.0:9400."
    ),
    "admit: [10.0.0.7, 10.0.0/8]": (
        "1: admit: found '10.0.0/8'; write addresses and networks such as 10.0.0.7 or "
        "10.1.0.0/16, or all."
    ),
    "admit: 10.0.0.7\nencrypt: true": (
        "1: admit: with `encrypt`, nobody else reaches a task; remove one of the two."
    ),
    "jobs: {ps: {addresses: ['10.0.0.1:2222']}, worker: 1}\nencrypt: true": (
        "1: jobs.ps.addresses: with `encrypt`, tasks have addresses of 127.0.0.1; remove one of "
        "the two."
    ),
    "admit: node1": (
        "1: admit: found 'node1'; write addresses and networks such as 10.0.0.7 or "
        "10.1.0.0/16, or all."
    ),
    "admit: 10.0.0.0/255.0.0.0": (
        "1: admit: found '10.0.0.0/255.0.0.0'; write addresses and networks such as 10.0.0.7 or "
        "10.1.0.0/16, or all."
    ),
    "ports: 70000": "1: ports: found 70000; ports run from 1 to 65535.",
    "ports: 2400-2300": "1: ports: the range 2400-2300 runs backwards; write 2300-2400.",
    "ports: 65535\njobs: {a: 3}": (
        "1: ports: 3 tasks from port 65535 on would go past 65535; begin at 65533 or below."
    ),
    "ports: 2300-2301": (
        "1: ports: the range 2300-2301 has 2 ports; 3 tasks need 3. Write 2300-2302 or more."
    ),
    "hosts: a,b\nports: 2300-2300\njobs: {ps: 1, worker: 2}": (
        "2: ports: the range 2300-2300 has 1 port; 3 tasks need 2 on one host. "
        "Write 2300-2301 or more."
    ),
}

ALLOWED = {
    "slots that just suffice": "hosts: a:2,b:2\njobs: {ps: 1, worker: 3}",
    "one host without a limit": "hosts: a:1,b\njobs: {worker: 9}",
    "a pin to this machine": "jobs: {ps: {hosts: [localhost]}}",
    "the same port on two hosts": (
        "hosts: a,b\nports: 2222\njobs: {ps: {hosts: [a]}, worker: {hosts: [b]}}"
    ),
    "the same port on hosts not known yet": "hosts: a,b\nports: 2222\njobs: {ps: 1, worker: 1}",
    "a range that just suffices": "ports: 2300-2302",
    "jobs outside the cluster need no port": (
        "ports: 2300-2300\njobs: {ps: 1, evaluator: 1, trainer: {in_cluster: false}}"
    ),
    "the last port": "jobs: {a: {count: 2, ports: 65534}}",
    "addresses alone give the count": (
        "jobs: {ps: {addresses: ['a:1', 'a:2'], task_args: {1: [--x]}}}\nprogram: a.py"
    ),
    "the client of an in-graph run decides": (
        "program: a:b\nreplication: in-graph\nends_with: [client]"
    ),
    "the chief that a coordinator script gets": (
        "program: a.py\nreplication: coordinator\nends_with: [chief]"
    ),
    "job names are free": "program: a.py\njobs: {controller: 1, wokrer: 2}",
    "a path with a blank": "program: my script.py",
    "a module": "program: -m package.train",
    "a command": "program: [./train, --fast]",
    "a bare server beside a program": "program: a.py\njobs: {ps: {run: server}, worker: 1}",
    "a task outside the cluster that is started once, beside those that start again": (
        "on_ps_failure: restart-all\njobs:\n  ps: 1\n  evaluator: {restart: {when: never}}\n"
        "  fetch: {run: [./fetch], in_cluster: false, restart: {when: never}}"
    ),
    "a rule that ends the run, where nothing is started twice": (
        "on_ps_failure: fail\non_worker_failure: restart-worker\nrestart: {when: never}"
    ),
    "replication without a program": "replication: in-graph",
}


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_a_contradiction_is_told_where_what_and_what_to_do(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert mistakes(path) == [f"{path}:{CONTRADICTIONS[text]}"]


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_what_fits_together_is_let_through(text: str, tmp_path: Path) -> None:
    load(write(tmp_path, text), default_name="x")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (
            "hosts: a:2,b:x\njobs:\n  ps: {count: many, task_args: {5: [--x]}}\n"
            "  worker: {count: 3, hosts: [c]}\n",
            ["hosts", "jobs.ps.count"],
        ),
        (
            "hosts: a:2\nprogram: a:b\njobs:\n  ps: {count: many}\n"
            "  wokrer: {count: 9, hosts: [b]}\nends_with: [nobody]\n",
            ["jobs", "jobs.ps.count", "jobs.wokrer.hosts[0]", "ends_with[0]"],
        ),
    ],
    ids=["nothing is judged by a value that is a mistake", "what does not rest on it is judged"],
)
def test_a_mistake_hides_only_what_rests_on_it(text: str, keys: list[str], tmp_path: Path) -> None:
    assert [problem.split(": ")[1] for problem in mistakes(write(tmp_path, text))] == keys
