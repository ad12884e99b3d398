"""How a script learns its role: which flags (`--job_name`, `--ps_hosts`, ...) and whether TF_CONFIG its tasks get. `role_by: auto` follows
the source of the script, and explains itself in a note."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from psclust.plan.job_plan import JobPlan
from psclust.plan.script_facts import CLASSIC_FLAGS, ScriptFacts, flag_name
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.placeholders import placeholders, texts_of_job
from psclust.spec.program_command import ProgramCommand

_ENOUGH = 2  # a single flag may be the script's own


@dataclass(frozen=True, slots=True)
class RoleBy:
    """The flags, and whether TF_CONFIG, that the tasks of a job get. psclust prints `note` before anything starts, and adds `hint` to the
    message of a failure that a wrong guess may explain. Neither is set if the user has decided."""

    flags: tuple[str, ...] = ()
    tf_config: bool = False
    note: str | None = None
    hint: str | None = None


def decide(file: ClusterFile, entry: JobPlan, facts: ScriptFacts | None, tasks: int) -> RoleBy:
    """`facts`: of the source of their program, None if it cannot be read; `tasks`: how many the cluster has. One task alone needs no
    role."""
    program = entry.program
    if program is None or program.is_psclust:
        return RoleBy()
    if file.role_by != "auto":
        flags = tuple(CLASSIC_FLAGS.values()) if file.role_by == "flags" and not entry.job.command else ()
        return RoleBy(flags, file.role_by == "tf_config")
    name = entry.python_source(file)
    if name is None:
        return RoleBy()
    # The only task of a job outside the cluster has no role in it.
    alone = not entry.in_cluster and entry.job.count == 1
    return _guess(name, program, facts, _Given.to(file, entry), 1 if alone else tasks)


@dataclass(frozen=True, slots=True)
class _Given:
    """What the user's arguments and variables already hold. `role`: placeholders for the task itself; `cluster`: whether there are any for
    the other tasks; `flags`: the classic ones that the user gives; `tf_config`: whether the user sets it; `needed`: the flags without which
    two tasks of this cluster would take the same role."""

    role: tuple[str, ...]
    cluster: bool
    flags: frozenset[str]
    tf_config: bool
    needed: tuple[str, ...]

    @classmethod
    def to(cls, file: ClusterFile, entry: JobPlan) -> _Given:
        texts = texts_of_job(file, entry.job)
        found = [placeholder for text in texts for placeholder in placeholders(text)]
        names = {name for env in (file.env, entry.job.env, *entry.job.task_env.values()) for name in env}
        return cls(
            role=tuple(dict.fromkeys(str(each) for each in found if each.is_own)),
            cluster=any(each.is_of_cluster for each in found),
            flags=frozenset(flag_name(text) for text in texts if text.startswith("-")) & CLASSIC_FLAGS.keys(),
            tf_config="TF_CONFIG" in names,
            needed=(
                *(("job_name",) if len(file.jobs) > 1 else ()),
                *(("task_index",) if any(job.count > 1 for job in file.jobs.values()) else ()),
            ),
        )


def _guess(name: str, program: ProgramCommand, facts: ScriptFacts | None, given: _Given, tasks: int) -> RoleBy:
    if given.cluster or given.tf_config:
        return RoleBy()
    if facts is None:
        # A command gets only what its source asks for.
        unasked = not given.role and program.is_python
        return _explain(name, RoleBy(tf_config=unasked), ScriptFacts(may_read_role=True), given, tasks)
    enough = len(facts.flags) >= _ENOUGH
    flags = tuple(_filled(flag) for flag in facts.flags if flag_name(flag) not in given.flags) if enough else ()
    has_role = bool(given.role or given.flags) or enough
    tf_config = facts.reads_tf_config or (not has_role and (program.is_python or facts.may_read_role))
    return _explain(name, RoleBy(flags, tf_config), facts, given, tasks)


def _filled(flag: str) -> str:
    return f"{flag}={{{flag_name(flag)}}}"


def _explain(name: str, role_by: RoleBy, facts: ScriptFacts, given: _Given, tasks: int) -> RoleBy:
    flags = _and([flag.partition("=")[0] for flag in role_by.flags])
    note = hint = None
    if role_by.flags and role_by.tf_config:
        note = f"{name} defines {flags} and reads TF_CONFIG: each task gets both (role_by: auto)."
        hint = f"psclust gave it {flags} and TF_CONFIG, as {name} names them; if that is wrong write role_by: flags, tf_config or none"
    elif role_by.flags:
        note = f"{name} defines {flags}: each task gets {'them' if len(role_by.flags) > 1 else 'it'} (role_by: flags)."
        hint = f"psclust gave it {flags}, because {name} defines them; if that is wrong write role_by: tf_config or none"
    elif role_by.tf_config:
        note = f"{name}: each task gets TF_CONFIG (role_by: tf_config)."
        hint = "psclust gave it TF_CONFIG and no flags; if that is wrong write role_by: flags or none, or placeholders in args"
    if tasks > 1 and role_by.flags and not role_by.tf_config and not given.role:
        missing = _missing({flag_name(flag) for flag in role_by.flags} | given.flags, given.needed)
        note, hint = f"{note}{missing}", f"{hint}.{missing}" if missing else hint
    if tasks > 1 and not (role_by.flags or facts.may_read_role or given.role or given.flags):
        note = _no_role(name, facts)
    return replace(role_by, note=note, hint=hint)


def _missing(flags: Collection[str], needed: Sequence[str]) -> str:
    """Sentences about the flags that the script lacks."""
    text = ""
    missing = [name for name in needed if name not in flags]
    if missing:
        names = _and([f"--{name}" for name in missing])
        others = " ".join(f"--task_id={{{name}}}" if name == "task_index" else f"--job={{{name}}}" for name in missing)
        text += f" It defines no {names}, so two of its tasks would take the same role, unless you give another flag, such as {others}."
    if not {"ps_hosts", "worker_hosts"} & set(flags):
        text += (
            " It defines no --ps_hosts or --worker_hosts: repeat the addresses written in the script under `addresses:` (docs/scripts.md)."
        )
    return text


def _no_role(name: str, facts: ScriptFacts) -> str:
    classic = ", ".join(f"--{flag}" for flag in CLASSIC_FLAGS)
    flags = f"of {classic} defines only {facts.flags[0]}" if facts.flags else f"defines none of {classic}"
    return (
        f"{name} seems not to read TF_CONFIG, and {flags}: by its source, no task learns its role, "
        "and each would train alone. Pass the role by placeholders in args or env, such as --task={task_index} --workers={worker_hosts}; "
        "write role_by: none if it needs none, role_by: tf_config if it does read TF_CONFIG."
    )


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
