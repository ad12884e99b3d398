"""What a shell offers after TAB: names of runs and tasks, and values of options. Shells ask the
command itself, through click."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from psclust.errors import PsclustError
from psclust.rundir.folder import ClusterFolder, clusters, state_root
from psclust.rundir.status_file import read_status
from psclust.spec.jobs import PS, WORKER

# The variable by which a shell's function asks.
VARIABLE = "_PSCLUST_COMPLETE"
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class _Bash(BashComplete):
    """click's takes bash's words, which end at each colon: `worker:0` would be three."""

    source_template = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" current type value
    current="${line##*[[:space:]]}"
    local -a before
    read -ra before <<< "${line%%"$current"}"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain) COMPREPLY+=("${value#"${current%%"${current##*:}"}"}") ;;
        esac
    done < <(COMP_WORDS="$line" COMP_CWORD="${#before[@]}" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


add_completion_class(_Bash)


def values(*texts: str) -> Complete:
    """The values of an option."""
    return lambda context, parameter, incomplete: _items(texts, incomplete)


def run_names(*, live: bool) -> Complete:
    """Names of runs. live: only of those."""
    return lambda context, parameter, incomplete: _items(
        [run.name for run in _runs(context, live=live)], incomplete
    )


def names_and_tasks(*, live: bool) -> Complete:
    """`[NAME] [TASK...]`: names of runs, and the jobs and tasks of the run that is named already,
    or of all of them."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        runs = _runs(context, live=live)
        given = [str(word) for word in context.params.get(str(parameter.name)) or ()]
        named = [run for run in runs if run.name in given]
        found: dict[str, None] = {} if named else dict.fromkeys(run.name for run in runs)
        for run in named or runs:
            with suppress(PsclustError, OSError):
                folder = run.current()
                tasks = [task.task for task in read_status(folder).tasks] if folder else []
                found |= dict.fromkeys([*(task.partition(":")[0] for task in tasks), *tasks])
        return _items([word for word in found if word not in given], incomplete)

    return complete


def names_and_counts(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """`[NAME] [JOB=COUNT...]`: names of live runs, and the jobs that are scaled."""
    names = [run.name for run in _runs(context, live=True)]
    given = {str(word) for word in context.params.get(str(parameter.name)) or ()}
    free = [] if given & set(names) else names
    return _items([*free, f"{WORKER}=", f"{PS}="], incomplete)


def files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Files, which the shell knows itself."""
    return [CompletionItem(incomplete, type="file")]


def _runs(context: click.Context, *, live: bool) -> list[ClusterFolder]:
    try:
        known = clusters(state_root(os.environ, context.params.get("run_dir")))
    except OSError:
        return []
    return [run for run in known if not live or run.is_live()]


def _items(texts: Sequence[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(text) for text in texts if text.startswith(incomplete)]
