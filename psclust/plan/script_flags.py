"""How the tasks of a job learn their place where the user has not said it (`role_by: auto`): what the source of their program asks for, as
far as it can do no harm; and the words in which the user hears of the guess."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psclust.plan.cluster_layout import JobLayout
from psclust.plan.program_kind import Program
from psclust.plan.script_facts import CLASSIC_FLAGS, ScriptFacts, flag_name
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.placeholders import placeholders, texts_of_job

_PYTHON = re.compile(r"python[\d.]*")
# So many are enough to know them for what they are: one alone may be the program's own.
_ENOUGH = 2


@dataclass(frozen=True, slots=True)
class RoleBy:
    """What tasks of a job are given: arguments, and TF_CONFIG. `note` tells the user before anything starts; `hint` stands in the text
    of a failure that the guess may have caused. Neither where the user has decided."""

    flags: tuple[str, ...] = ()
    tf_config: bool = False
    note: str | None = None
    hint: str | None = None


def python_program(file: ClusterFile, entry: JobLayout) -> str | None:
    """`train.py`, or `-m module`, that the tasks of a job run, by name or behind a `python`; None for other commands, psclust programs and
    psclust's own servers."""
    program = entry.program
    if program is None or program.kind == "psclust":
        return None
    words = list(program.words)
    if program.kind == "command" and _PYTHON.fullmatch(os.path.basename(words[0])):
        words = [*words[1:], *(() if isinstance(entry.job.run, list) else file.args)]
    if words[:1] == ["-m"] and len(words) > 1:
        return f"-m {words[1]}"
    return words[0] if words and words[0].endswith(".py") else None


def decide(file: ClusterFile, entry: JobLayout, facts: ScriptFacts | None, tasks: int) -> RoleBy:
    """What the tasks of a job are told. `facts`: of their program's source, None where it could not be read; `tasks`: how many tasks the
    cluster has; one alone need not know its place."""
    program = entry.program
    if program is None or program.kind == "psclust":
        return RoleBy()
    if file.role_by != "auto":
        own_command = isinstance(entry.job.run, list)
        flags = tuple(CLASSIC_FLAGS.values()) if file.role_by == "flags" and not own_command else ()
        return RoleBy(flags, file.role_by == "tf_config")
    name = python_program(file, entry)
    if name is None:
        return RoleBy()
    # A client that is in no cluster has no place there.
    alone = not entry.in_cluster and entry.job.count == 1
    return _guess(name, program, facts, _Given.to(file, entry), 1 if alone else tasks)


@dataclass(frozen=True, slots=True)
class _Given:
    """What the user tells the tasks of a job. place: placeholders about the task itself; cluster: whether there are any about the others;
    flags: the classic ones that the user gives; tf_config: whether the user sets it. needed: the flags without which a task of this cluster
    takes another's place."""

    place: tuple[str, ...]
    cluster: bool
    flags: frozenset[str]
    tf_config: bool
    needed: tuple[str, ...]

    @classmethod
    def to(cls, file: ClusterFile, entry: JobLayout) -> _Given:
        texts = texts_of_job(file, entry.job)
        found = [placeholder for text in texts for placeholder in placeholders(text)]
        names = {name for env in (file.env, entry.job.env, *entry.job.task_env.values()) for name in env}
        return cls(
            place=tuple(dict.fromkeys(str(each) for each in found if each.tells_place)),
            cluster=any(each.tells_cluster for each in found),
            flags=frozenset(flag_name(text) for text in texts if text.startswith("-")) & CLASSIC_FLAGS.keys(),
            tf_config="TF_CONFIG" in names,
            needed=(
                *(("job_name",) if len(file.jobs) > 1 else ()),
                *(("task_index",) if any(job.count > 1 for job in file.jobs.values()) else ()),
            ),
        )


def _guess(name: str, program: Program, facts: ScriptFacts | None, given: _Given, tasks: int) -> RoleBy:
    if given.cluster or given.tf_config:
        return RoleBy()
    if facts is None:
        # A command runs as it stands, unless its source asks for more.
        unasked = not given.place and program.is_python
        return _with_words(name, RoleBy(tf_config=unasked), ScriptFacts(may_read_place=True), given, tasks)
    enough = len(facts.flags) >= _ENOUGH
    flags = tuple(_filled(flag) for flag in facts.flags if flag_name(flag) not in given.flags) if enough else ()
    told = bool(given.place or given.flags) or enough
    tf_config = facts.reads_tf_config or (not told and (program.is_python or facts.may_read_place))
    return _with_words(name, RoleBy(flags, tf_config), facts, given, tasks)


def _filled(flag: str) -> str:
    return f"{flag}={{{flag_name(flag)}}}"


def _with_words(name: str, told: RoleBy, facts: ScriptFacts, given: _Given, tasks: int) -> RoleBy:
    flags = _and([flag.partition("=")[0] for flag in told.flags])
    note = hint = None
    if told.flags and told.tf_config:
        note = f"{name} defines {flags} and reads TF_CONFIG: each task gets both (role_by: auto)."
        hint = f"psclust gave it {flags} and TF_CONFIG, as {name} names them; if that is wrong write role_by: flags, tf_config or none"
    elif told.flags:
        note = f"{name} defines {flags}: each task gets {'them' if len(told.flags) > 1 else 'it'} (role_by: flags)."
        hint = f"psclust gave it {flags}, because {name} defines them; if that is wrong write role_by: tf_config or none"
    elif told.tf_config:
        note = f"{name}: each task gets TF_CONFIG (role_by: tf_config)."
        hint = "psclust gave it TF_CONFIG and no flags; if that is wrong write role_by: flags or none, or placeholders in args"
    if tasks > 1 and told.flags and not told.tf_config and not given.place:
        unsaid = _unsaid({flag_name(flag) for flag in told.flags} | given.flags, given.needed)
        note, hint = f"{note}{unsaid}", f"{hint}.{unsaid}" if unsaid else hint
    if tasks > 1 and not (told.flags or facts.may_read_place or given.place or given.flags):
        note = _lost(name, facts)
    return RoleBy(told.flags, told.tf_config, note, hint)


def _unsaid(flags: Collection[str], needed: Sequence[str]) -> str:
    """What tasks that are given only these flags are not told, as further sentences."""
    text = ""
    missing = [name for name in needed if name not in flags]
    if missing:
        names = _and([f"--{name}" for name in missing])
        others = " ".join(f"--task_id={{{name}}}" if name == "task_index" else f"--job={{{name}}}" for name in missing)
        text += f" It defines no {names}, so that its tasks take each other's place, unless another flag is given, such as {others}."
    if not {"ps_hosts", "worker_hosts"} & set(flags):
        text += (
            " It defines no --ps_hosts or --worker_hosts: write addresses that stand in the script under `addresses:` (docs/scripts.md)."
        )
    return text


def _lost(name: str, facts: ScriptFacts) -> str:
    classic = ", ".join(f"--{flag}" for flag in CLASSIC_FLAGS)
    flags = f"of {classic} defines {facts.flags[0]} alone" if facts.flags else f"defines none of {classic}"
    return (
        f"{name} seems not to read TF_CONFIG, and {flags}: as far as its source shows, no task learns its place, "
        "and each would train alone. Tell it by placeholders in args or env, such as --task={task_index} --workers={worker_hosts}; "
        "write role_by: none if it needs no telling, role_by: tf_config if it does read TF_CONFIG."
    )


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
