"""The command `psclust`. Verbs are imported when they are called, so that `--help` answers at
once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from psclust import __version__
from psclust.cli import output, streams
from psclust.errors import MissingPackageError, PsclustError, StartError, UsageError

# verb -> its line in `psclust --help`; its module is psclust.cli.verbs.<verb>, its command
# `command` there.
VERBS = {
    "up": "Start a cluster, train on it, watch it, end it.",
    "plan": "Show what `up` would start, and change in a running cluster.",
    "ps": "List the tasks of a run.",
    "logs": "Show what tasks printed.",
    "top": "Show what each task uses, and how far it is.",
    "why": "Show what each task does, and which it waits for.",
    "report": "Write a page about a run, live or ended.",
    "attach": "Watch a live run to its end.",
    "clusters": "List the clusters.",
    "restart": "Stop one task and start it again.",
    "scale": "Change the number of ps and workers of a live run.",
    "rebalance": "Place the variables of a live run anew.",
    "down": "End a run.",
    "inject": "Rehearse a failure of a live run.",
    "doctor": "Check hosts before anything starts.",
    "exec": "Run a command on every host.",
    "init": "Write a commented cluster file.",
    "manifest": "Print a cluster as a JobSet of Kubernetes.",
    "task": "Run one task, in a pod of that manifest.",
    "schema": "Print the cluster file's JSON Schema, for editors.",
    "prune": "Remove old runs.",
    "completion": "Print what makes a shell complete psclust's words.",
}
# Names that other tools use.
_SYNONYMS = {
    "start": "up",
    "run": "up",
    "stop": "down",
    "kill": "down",
    "status": "ps",
    "list": "clusters",
    "ls": "clusters",
}
# Module -> what to install for it. A verb imports only what it needs of them.
PACKAGES = {
    "cryptography": "cryptography",
    "fabric": "fabric",
    "google": "protobuf",
    "grpc": "grpcio",
    "jinja2": "jinja2",
    "paramiko": "paramiko",
    "pathspec": "pathspec",
    "prometheus_client": "prometheus_client",
    "psutil": "psutil",
    "pydantic": "pydantic",
    "rich": "rich",
    "yaml": "PyYAML",
}
_LEAST_LIKE = 0.6  # similarity of a word and the verb that was probably meant
# Verbs that act: their exit codes do not depend on whether their output could be written.
_DEEDS = (
    "up",
    "task",
    "attach",
    "restart",
    "scale",
    "rebalance",
    "down",
    "inject",
    "init",
    "prune",
    "report",
)


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"psclust.cli.verbs.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb, *rest = args
        if verb == "help":
            verb, rest = (rest[0], ["--help"]) if rest else ("help", [])
            if verb == "help":
                click.echo(ctx.get_help())
                ctx.exit()
        verb = _SYNONYMS.get(verb, verb)
        if verb not in VERBS:
            raise click.UsageError(f"{verb!r} is not a psclust command. {_hint(verb)}", ctx)
        return super().resolve_command(ctx, [verb, *rest])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            raise click.UsageError(
                f"{option}: a command comes first, as in `psclust up {option}`.", ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([*VERBS.items(), ("help", "Explain a verb: psclust help up.")])


def _hint(word: str) -> str:
    if word.endswith((".yaml", ".yml")):
        return f"A cluster file is started with `psclust up -f {word}`."
    if word.endswith(".py") or ":" in word or os.sep in word:
        return f"A program is started with `psclust up {word}`."
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), [*VERBS, *_SYNONYMS], n=1, cutoff=_LEAST_LIKE)
    return f"Did you mean `psclust {near[0]}`?" if near else f"There are {', '.join(VERBS)}."


def _show_versions(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Those that a run here gets. TensorFlow is looked up, not imported."""
    if wanted and not context.resilient_parsing:
        from psclust.reach.python.on_host.facts import version_of

        found = version_of("tensorflow")
        click.echo(f"psclust {__version__}")
        click.echo(f"Python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})")
        click.echo(
            f"TensorFlow {found}, for tasks"
            if found is not None
            else "no TensorFlow beside it: name a Python that has one for tasks (--python, "
            "`python:`)"
        )
        context.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of psclust, Python and TensorFlow.",
)
def psclust() -> None:
    """Start, train on, watch and end TensorFlow parameter-server clusters.

    \b
    psclust up --ps 2 --workers 2 train.py --lr 0.1
    psclust up -f cluster.yaml --replication in-graph
    """


def main() -> None:
    """Exit codes: 0 done, 1 the run failed, 2 a wrong request, 3 the cluster could not be started,
    130 and 143 interrupted. A verb that only shows something and cannot write it: 1, or 141 if the
    reader has left."""
    streams.guard()
    code = run(sys.argv[1:])
    sys.stdout.flush()
    if code == 0 and _verb_of(sys.argv[1:]) not in _DEEDS and streams.failure() is not None:
        code = 141 if streams.reader_has_left() else 1
    if code != 141:
        output.report_lost_output()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    try:
        code = psclust.main(list(arguments), prog_name="psclust", standalone_mode=False)
    except PsclustError as error:
        output.error(str(error))
        return error.exit_code
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context is not None:
            click.echo(f"{context.get_usage()}\nTry `{context.command_path} --help`.\n", err=True)
        output.error(error.format_message())
        return UsageError.exit_code
    except ModuleNotFoundError as error:
        package = PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        missing = MissingPackageError(f"psclust {_verb_of(arguments)}".rstrip(), package)
        output.error(str(missing))
        return missing.exit_code
    except FileNotFoundError:
        if _folder_is_there():
            raise
        output.error(
            "the folder you are in has been deleted. "
            "Change to one that exists (cd DIR), and try again."
        )
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        output.error(
            "no more threads can be started here; raise the limit of processes (ulimit -u) "
            "or of memory (ulimit -v)."
        )
        return StartError.exit_code
    return code if isinstance(code, int) else 0


def _verb_of(arguments: Sequence[str]) -> str:
    word = next((word for word in arguments if not word.startswith("-")), "")
    return _SYNONYMS.get(word, word)


def _folder_is_there() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
