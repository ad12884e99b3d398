"""How a script learns its role: which flags (`--job_name`, `--ps_hosts`, ...) and whether TF_CONFIG
its tasks get. `role_by: auto` follows the source of the script, leaves out what the user gives, and
explains itself in a note, which also names what a task does not learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psclust.plan.given_role import WHO, GivenRole, Part, given_role, parts_of_flags
from psclust.plan.job_plan import JobPlan
from psclust.plan.script_facts import CLASSIC_FLAGS, ScriptFacts, flag_name, is_hosts_flag
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.jobs import is_chief, is_observer
from psclust.spec.plurals import joined
from psclust.spec.program_command import ProgramCommand

_ENOUGH = 2  # a single flag may be the script's own


@dataclass(frozen=True, slots=True)
class RoleBy:
    """The flags, and whether TF_CONFIG, that the tasks of a job get. `learns_addresses`: false if
    by its source it gets none, so its server cannot listen where psclust expects it. psclust prints
    `note` before anything starts, and adds `hint` to the message of a failure that a wrong guess
    may explain. Neither is set if the user has decided."""

    flags: tuple[str, ...] = ()
    tf_config: bool = False
    learns_addresses: bool = True
    note: str | None = None
    hint: str | None = None


def decide(
    file: ClusterFile, entry: JobPlan, facts: ScriptFacts | None, jobs: Sequence[JobPlan]
) -> RoleBy:
    """`facts`: of the source of their program, None if it cannot be read; `jobs`: all of the
    plan."""
    program = entry.program
    name = entry.python_source(file)
    if program is None or program.is_psclust or (name is None and file.role_by == "auto"):
        return RoleBy()
    given = given_role(file, entry, jobs)
    known = replace(facts, flags=_of_cluster(facts.flags, jobs)) if facts else None
    if name is None or file.role_by != "auto":
        flags = (
            _all_flags(known, given) if file.role_by == "flags" and not entry.job.command else ()
        )
        chosen = RoleBy(flags, file.role_by == "tf_config")
        return replace(
            chosen, learns_addresses=_learns_addresses(entry, _learnt(chosen, known, given))
        )
    chosen = _guess(program, known, given)
    learnt = _learnt(chosen, known, given)
    # The only task of a job outside the cluster, or with a command of its own, needs no role.
    alone = entry.job.count == 1 and (not entry.in_cluster or bool(entry.job.command))
    needs_role = not alone and sum(each.job.count for each in jobs) > 1
    explained = _explain(
        name,
        chosen,
        known or ScriptFacts(may_read_role=True),
        given,
        learnt if needs_role else None,
        _who(entry, jobs),
    )
    absent = (
        _absent_jobs([flag for flag in facts.flags if flag_name(flag) not in given.flags], jobs)
        if facts and chosen.flags
        else None
    )
    note = " ".join(filter(None, (explained.note, absent))) or None
    return replace(explained, learns_addresses=_learns_addresses(entry, learnt), note=note)


def _of_cluster(flags: Sequence[str], jobs: Sequence[JobPlan]) -> tuple[str, ...]:
    """The classic flags, and those for the addresses of a job in the cluster."""
    names = {*CLASSIC_FLAGS, *(f"{each.name}_hosts" for each in jobs if each.in_cluster)}
    return tuple(flag for flag in flags if flag_name(flag) in names)


def _learns_addresses(entry: JobPlan, learnt: frozenset[Part]) -> bool:
    return "addresses" in learnt or bool(entry.job.addresses)


def _all_flags(facts: ScriptFacts | None, given: GivenRole) -> tuple[str, ...]:
    """The classic flags, and what else the script defines, in its spelling."""
    spelled = {flag_name(flag): flag for flag in facts.flags} if facts else {}
    names = dict.fromkeys((*CLASSIC_FLAGS, *spelled))
    return tuple(
        _filled(spelled.get(name, f"--{name}")) for name in names if name not in given.flags
    )


def _guess(program: ProgramCommand, facts: ScriptFacts | None, given: GivenRole) -> RoleBy:
    if facts is None:
        # A command gets only what its source asks for.
        return RoleBy(tf_config=not given.who and program.is_python)
    enough = len(facts.flags) >= _ENOUGH or _completes(facts, given)
    flags = (
        tuple(_filled(flag) for flag in facts.flags if flag_name(flag) not in given.flags)
        if enough
        else ()
    )
    has_role = bool(given.who or given.flags) or enough
    return RoleBy(
        flags,
        facts.reads_tf_config or (not has_role and (program.is_python or facts.may_read_role)),
    )


def _completes(facts: ScriptFacts, given: GivenRole) -> bool:
    """Whether the one flag of the script is what the user's placeholders leave open."""
    together = given.who | parts_of_flags(map(flag_name, facts.flags))
    return (
        bool(facts.flags and given.who)
        and together >= set(given.needed)
        and not facts.reads_tf_config
    )


def _filled(flag: str) -> str:
    return f"{flag}={{{flag_name(flag)}}}"


def _learnt(role_by: RoleBy, facts: ScriptFacts | None, given: GivenRole) -> frozenset[Part]:
    """What a task learns. A script whose source cannot be read learns what it is offered."""
    learnt = (
        given.parts
        | parts_of_flags(flag_name(flag) for flag in role_by.flags)
        | (parts_of_flags(given.flags) & WHO)
    )
    reads = facts is None or facts.may_read_role or (role_by.tf_config and not (learnt & WHO))
    return learnt | WHO | {"addresses"} if reads else learnt


def _who(entry: JobPlan, jobs: Sequence[JobPlan]) -> str:
    """The tasks that run the program of `entry`, as the subject of a sentence."""
    same = [each for each in jobs if each.program == entry.program and each.job.count]
    return f"{same[0].name}:0" if sum(each.job.count for each in same) == 1 else "each task"


def _explain(
    name: str,
    role_by: RoleBy,
    facts: ScriptFacts,
    given: GivenRole,
    learnt: frozenset[Part] | None,
    who: str,
) -> RoleBy:
    """`learnt`: None for one task alone, which needs no role."""
    flags = joined([flag.partition("=")[0] for flag in role_by.flags])
    note = hint = None
    if role_by.flags and role_by.tf_config:
        note = f"{name} defines {flags} and reads TF_CONFIG: {who} gets both (role_by: auto)."
        hint = (
            f"psclust gave it {flags} and TF_CONFIG, as {name} names them; "
            "if that is wrong write role_by: flags, tf_config or none"
        )
    elif role_by.flags:
        note = (
            f"{name} defines {flags}: "
            f"{who} gets {'them' if len(role_by.flags) > 1 else 'it'} (role_by: flags)."
        )
        hint = (
            f"psclust gave it {flags}, because {name} defines them; "
            "if that is wrong write role_by: tf_config or none"
        )
    elif role_by.tf_config:
        note = f"{name}: {who} gets TF_CONFIG (role_by: tf_config)."
        hint = (
            "psclust gave it TF_CONFIG and no flags; if that is wrong write role_by: "
            "flags or none, or placeholders in args"
        )
    if learnt is None or facts.may_read_role:
        gaps = ""
    elif not (role_by.flags or given.flags or given.who or (given.parts and not given.needed)):
        note, gaps = _no_role(name, facts), ""
    else:
        gaps = _gaps(name if note is None else "It", facts, given, learnt)
    note = " ".join(filter(None, (note, gaps))) or None
    hint = f"{hint}. {gaps}" if hint and gaps else hint
    return replace(role_by, note=note, hint=hint)


def _gaps(it: str, facts: ScriptFacts, given: GivenRole, learnt: frozenset[Part]) -> str:
    """Sentences about what its tasks do not learn."""
    text = []
    missing = [
        part
        for part in given.needed
        if part not in (learnt | given.perhaps if given.who else learnt)
    ]
    if missing:
        names = joined([f"--{part}" for part in missing])
        others = " ".join(
            f"--task_id={{{part}}}" if part == "task_index" else f"--job={{{part}}}"
            for part in missing
        )
        text.append(
            f"{it} defines no {names}, so two of its tasks would take the same role, "
            f"unless you give another flag, such as {others}."
        )
        it = "It"
    if (
        "addresses" not in learnt
        and given.without_addresses
        and (facts.builds_cluster or not given.who)
    ):
        own = joined([f"--{flag}" for flag in sorted(given.flags) if is_hosts_flag(flag)])
        what, where = (
            (f"{it} gets your {own}", "there")
            if own
            else (f"{it} defines no --ps_hosts or --worker_hosts", "in the script")
        )
        jobs = f"`addresses:` of {joined(given.without_addresses)}"
        text.append(f"{what}: repeat the addresses written {where} under {jobs} (docs/scripts.md).")
    return " ".join(text)


def _absent_jobs(flags: Sequence[str], jobs: Sequence[JobPlan]) -> str | None:
    """A sentence about flags for the addresses of a job that TensorFlow knows and the cluster spec
    does not list."""
    present = {each.name for each in jobs}
    for flag in flags:
        job = flag_name(flag).removesuffix("_hosts")
        if _of_cluster([flag], jobs):
            continue
        if is_chief(job) and job not in present:
            return f"No task gets {flag}: the cluster has no {job} (--job {job}=1 adds one)."
        if is_observer(job) and job in present:
            return (
                f"No task gets {flag}: the cluster spec does not list the {job}, "
                "unless its job has in_cluster: true."
            )
    return None


def _no_role(name: str, facts: ScriptFacts) -> str:
    classic = ", ".join(f"--{flag}" for flag in CLASSIC_FLAGS)
    flags = (
        f"of {classic} defines only {facts.flags[0]}"
        if facts.flags
        else f"defines none of {classic}"
    )
    return (
        f"{name} seems not to read TF_CONFIG, and {flags}: by its source, no task learns its role, "
        "and each would train alone. Pass the role by placeholders in args or env, such as "
        "--task={task_index} --workers={worker_hosts}; "
        "write role_by: none if it needs none, role_by: tf_config if it does read TF_CONFIG."
    )
