"""Checks of what a supervisor and its agents are asked for. Both ends are psclust's, but a mistake
of one must not end the other, or write outside a run's folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain

from psclust.errors import UsageError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.port_range import LAST_PORT, parse_port_range
from psclust.spec.typed_json import build
from psclust.spec.whole_number import whole_number

_JOB = re.compile(r"[a-z][a-z0-9_]*(\.free_port)?")  # a part of file names
_HOST = re.compile(r"[^\s:/\0]+")
_LONGEST_HOST = 255
_MOST_TASKS = 1 << 20
_LAST_MOMENT_S = 1e10
_LAST_EXIT_CODE = 255


def check_task(task: Task) -> None:
    """Raises UsageError, as all others here do."""
    if not _JOB.fullmatch(task.job) or not 0 <= task.index < _MOST_TASKS:
        raise UsageError(f"{_brief(task)} is not a task. A task is a job's name and an index.")


def check_task_name(text: str) -> None:
    """worker:0."""
    try:
        check_task(Task.parse(text))
    except ValueError:
        raise UsageError(f"{_brief(text)} is not a task. Write it as job:index.") from None


def check_attempt(number: int) -> None:
    if not 0 < number < 1 << 31:
        raise UsageError(f"{number} is not the number of an attempt.")


def check_moment(seconds: float) -> None:
    """On a clock."""
    if not 0 <= seconds < _LAST_MOMENT_S:
        raise UsageError(f"{seconds} is not a time. Give the seconds of this machine's clock.")


def check_addresses(addresses: Iterable[str]) -> None:
    for address in addresses:
        check_address(address)


def check_host(host: str) -> None:
    """A name or an IPv4 address."""
    with suppress(UnicodeError):
        if _HOST.fullmatch(host) and len(host.encode("idna")) <= _LONGEST_HOST:
            return
    raise UsageError(f"{_brief(host)} is not a host. Give its name, or its IPv4 address.")


def check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not 0 < (whole_number(port) or 0) <= LAST_PORT:
        raise UsageError(f"{_brief(address)} is not an address. Write it as host:port.")
    check_host(host)


def check_ports(ports: str) -> None:
    """auto, a port, or a range."""
    with suppress(ValueError):
        low, high = parse_port_range(ports)
        if ports == "auto" or 0 < low <= high <= LAST_PORT:
            return
    raise UsageError(f"{_brief(ports)} are not ports. Write auto, one port, or a range a-b.")


def check_port_requests(requests: Sequence[PortRequest]) -> None:
    for each in requests:
        check_task(each.task)
        check_host(each.host)
        check_ports(each.wanted)
    _refuse_twice(each.task for each in requests)


def check_task_plan(plan: TaskPlan) -> None:
    try:
        build(TaskPlan, asdict(plan))
    except ValueError as error:
        raise UsageError(f"{_brief(plan.task)}: its plan is not valid: {error}.") from None
    check_task(plan.task)
    texts = chain(plan.argv, plan.env, plan.env.values(), [plan.cwd])
    if not plan.argv or any("\0" in text for text in texts):
        raise UsageError(f"{plan.task}: its command, variables or folder cannot be given to exec.")
    if any(not name or "=" in name for name in plan.env):
        raise UsageError(f"{plan.task}: a variable has a name that no variable can have.")
    if plan.address is not None:
        check_address(plan.address)
    if plan.free_port is not None:
        check_ports(str(plan.free_port))


def check_plan(plan: Plan) -> None:
    if not plan.tasks:
        raise UsageError("The plan has no task.")
    limits = {name: value for name, value in asdict(plan.deadlines).items() if value is not None}
    short = [name for name, value in limits.items() if value < 0]
    if short or limits["run_exit_code"] > _LAST_EXIT_CODE:
        raise UsageError(f"The plan has a deadline that no run can keep: {plan.deadlines}.")
    for entry in plan.tasks:
        check_task_plan(entry)
    _refuse_twice(entry.task for entry in plan.tasks)
    there = {entry.task for entry in plan.tasks}
    for entry in plan.tasks:
        for need in entry.needs:
            if need not in there:
                raise UsageError(f"{entry.task}: waits for {_brief(need)}, which is not planned.")


def _refuse_twice(tasks: Iterable[Task]) -> None:
    seen: set[Task] = set()
    for task in tasks:
        if task in seen:
            raise UsageError(f"{task} is there twice.")
        seen.add(task)


def _brief(value: object) -> str:
    text = repr(str(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
