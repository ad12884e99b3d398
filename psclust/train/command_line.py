"""`python -m psclust.train module:program [options]`: runs a program as the task that the
environment names, or alone.

`--describe` before it prints the program's variables instead, for `psclust plan`. A user's mistake
is one sentence on stderr and an exit code; an exception in the user's own code keeps its traceback.
"""

from __future__ import annotations

import importlib
import logging
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import tensorflow as tf

from psclust.errors import PsclustError, UsageError
from psclust.estimator import install
from psclust.placement.description import DESCRIBED_PS, Description
from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.dry_build import dry_build, why_whole
from psclust.replication.graph_plan import one_way, one_way_in_step
from psclust.rundir.folder import RunFolder
from psclust.spec.program_command import no_such_attribute
from psclust.train.job import Job
from psclust.train.modes import run
from psclust.train.program import Program
from psclust.train.program_options import Options, parse_changes, parse_options
from psclust.train.progress_file import ProgressFile
from psclust.train.reporter import Reporter
from psclust.train.task_context import TaskContext, read_context

LOG = logging.getLogger(__name__)

_DESCRIBE = "--describe"
# The modules that warn of mistakes in the user's functions.
_OF_THE_FUNCTIONS = ("psclust.train.compared_tensors", "psclust.replication.towers.silent_mistakes")


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Returns the exit code."""
    _log_to_stdout()
    # This package builds graphs and runs sessions; all other TensorFlow 2 behavior (resource
    # variables, control flow) stays.
    tf.compat.v1.disable_eager_execution()
    try:
        describing = list(arguments[:1]) == [_DESCRIBE]
        options = parse_options(arguments[1:] if describing else arguments)
        context = read_context(environment)
        if not (context.is_chief or context.is_evaluator):
            _leave_to_the_chief()
        # Before the user's module is imported: it may use `tf.estimator` at once.
        install()
        program = load_program(options.program)
        program = program.with_params(
            parse_changes(options.changes, program.params or {})
        ).with_config([*options.config, *(["handed_out=true"] if context.elastic else [])])
        if describing:
            sys.stdout.write(f"{_describe(program, environment)}\n")
            return 0
        with ExitStack() as scratch:
            job = Job(
                program,
                context,
                options,
                _model_dir(options, context, scratch),
                _reporter(options, context),
            )
            job.end_request.listen()
            if context.elastic:
                job.end_request.listen_to_leave(str(context.task), in_step=context.in_step)
            run(job)
            if (
                context.is_chief
                and "train" in options.do
                and job.model_dir.is_dir()
                and (options.model_dir or context.run_dir)
            ):
                LOG.info("the model is in %s", job.model_dir)
    except PsclustError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _describe(program: Program, environment: Mapping[str, str]) -> str:
    """The variables of a program for `psclust plan`, from a dry build: one line for
    `Description.find`. environment: the number of ps and the placement for which it asks."""
    config, variables = program.config, dry_build(program)
    placement = PlacementSettings.parse(environment.get("PSCLUST_PLACEMENT", ""))
    ps = int(environment.get(DESCRIBED_PS, "0"))
    return Description(
        tuple(variables),
        config.wire_dtype,
        one_way(config),
        one_way_in_step(config),
        why_whole(program, variables, ps, placement),
    ).render()


def _model_dir(options: Options, context: TaskContext, scratch: ExitStack) -> Path:
    if options.model_dir:
        return options.model_dir
    # A task of a run may be killed, and would leave a temporary folder behind.
    return RunFolder(
        context.run_dir
        or Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="psclust-")))
    ).model


def _reporter(options: Options, context: TaskContext) -> Reporter:
    return Reporter(ProgressFile(context.progress_file), options.log_s)


def _log_to_stdout() -> None:
    """Logs one plain line a message, for this package only: the user's program configures its own
    logging."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    package_log = logging.getLogger("psclust")
    package_log.addHandler(handler)
    package_log.setLevel(logging.INFO)
    package_log.propagate = False
    tensorflow = tf.get_logger()
    tensorflow.setLevel(logging.INFO)
    tensorflow.addFilter(_is_useful)
    warnings.filterwarnings("ignore", ".* is deprecated", UserWarning, r"tensorflow\.python\.")


def _leave_to_the_chief() -> None:
    """Drop what a replica would say about the user's functions, which the chief calls as well."""
    for name in _OF_THE_FUNCTIONS:
        logging.getLogger(name).setLevel(logging.ERROR)


def _is_useful(record: logging.LogRecord) -> bool:
    """Passes, of TensorFlow's informative messages, those of its hooks (LoggingTensorHook,
    StepCounterHook); of its warnings, all but those about deprecation: the graph interface is
    deprecated, and a model over feature columns logs a page about it."""
    if record.levelno < logging.WARNING:
        return record.module == "basic_session_run_hooks"
    return record.module != "deprecation"


def load_program(spec: str) -> Program:
    """Imports `module:attribute`, also from the current directory. Raises UsageError if the module
    or the attribute is missing or not a Program; an exception in the module itself passes
    unchanged."""
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(
            f"{spec!r} names no program; write it as module:program, "
            "for example psclust.examples.digits:program"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise
        raise UsageError(
            f"{spec}: there is no module {error.name!r} in the current directory or on "
            "PYTHONPATH; check its name"
        ) from error
    if not hasattr(module, attribute):
        programs = [name for name, value in vars(module).items() if isinstance(value, Program)]
        raise UsageError(no_such_attribute(spec, module_name, attribute, programs, vars(module)))
    program = getattr(module, attribute)
    if not isinstance(program, Program):
        raise UsageError(
            f"{spec} is a {type(program).__name__}; it must be a psclust.Program(model_fn, "
            "input_fn, optimizer_fn)"
        )
    return program
