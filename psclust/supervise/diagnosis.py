"""What the last lines of a failed task show: a failure with a known remedy, whether it is about the task's role, and whether another
attempt would fail alike. Pure: the lines are an argument."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_AT = re.compile(r" at 0x[0-9a-f]+")
_WITHOUT_TRACEBACK = 5  # lines that count where there is no traceback; absl puts the flag above two lines of advice


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """error: the line that names the failure; "" if the task printed nothing. remedy: a sentence that ends with its page; None if the
    failure is not in `KNOWN`. of_role: the output speaks of flags, TF_CONFIG, a ClusterSpec or addresses. permanent: every attempt fails
    like this. suspect: every attempt does if two have."""

    error: str = ""
    remedy: str | None = None
    of_role: bool = False
    permanent: bool = False
    suspect: bool = False

    def repeats(self, before: Diagnosis) -> bool:
        """Whether an attempt failed as the one before; an object's address in the error may differ."""
        return self.suspect and _AT.sub("", self.error) == _AT.sub("", before.error)


NOTHING_KNOWN = Diagnosis()


@dataclass(frozen=True, slots=True)
class Known:
    """A failure that users meet. `pattern` finds it in the last traceback, or in the last lines; `remedy` may name its groups."""

    pattern: re.Pattern[str]
    remedy: str
    page: str
    permanent: bool = True


# In TensorFlow 2 tf.losses, tf.metrics and others are Keras's, whose classes begin with a capital letter.
_OF_KERAS = r"keras\._tf_keras\.keras(?=\.(?:losses|metrics|optimizers|initializers)' has no attribute '[a-z])"
_GONE = rf"module '(?:tensorflow(?!\S*\.compat)(?:\._api\.v2)?|{_OF_KERAS})(?P<sub>(?:\.\w+)*)' has no attribute '(?P<name>\w+)'"
# The first that is found counts.
KNOWN = (
    Known(
        re.compile(
            r"module 'tensorflow\S*' has no attribute 'estimator'|No module named 'tensorflow[._]estimator"
            r"|cannot import name 'estimator' from 'tensorflow"
        ),
        "TensorFlow 2.16 removed tf.estimator; its model functions run unchanged as a psclust.Program",
        "docs/tasks/estimator.md",
    ),
    Known(
        re.compile(
            r"module 'keras\S*' has no attribute '(?:experimental|DatasetCreator)'|cannot import name 'DatasetCreator'"
            r"|No module named 'keras\.\S*experimental|/keras/src/[\s\S]*ClusterCoordinator\.create_per_worker_dataset"
        ),
        "Keras 3 has no DatasetCreator, and its fit does not train under ParameterServerStrategy; set TF_USE_LEGACY_KERAS=1 for Keras 2 "
        "(package tf_keras), with which it does",
        "docs/tasks/parameter-server-strategy.md",
    ),
    Known(
        re.compile(
            r"module 'tensorflow\S*' has no attribute 'contrib'|No module named 'tensorflow\.contrib|cannot import name 'contrib' from"
        ),
        "tf.contrib ended with TensorFlow 1; tensorflow.compat.v1 has what was taken over from it, the package tf_slim its slim",
        "docs/tasks/tf1-script.md",
    ),
    Known(
        re.compile(_GONE),
        "TensorFlow 2 has no tf{sub}.{name}; a script of TensorFlow 1 runs with `import tensorflow.compat.v1 as tf` and "
        "`tf.disable_v2_behavior()`",
        "docs/tasks/tf1-script.md",
    ),
    Known(
        re.compile(r"Could not start gRPC server|Address already in use"),
        "another process listens at that address; repeat addresses that are written in the script under `addresses:`, so that psclust "
        "checks them before it starts a task",
        "docs/scripts.md",
        permanent=False,
    ),
)

_USAGE = re.compile(
    r"^\S.*: error: (?:unrecognized arguments|the following arguments are required|one of the arguments|argument |ambiguous option"
    r"|no such option|\S+ option requires)"  # argparse, optparse
    r"|^Error: (?:No such option|Missing (?:option|argument|parameter)|Got unexpected extra argument|Invalid value for)"  # click
    r"|Flags parsing error|UnrecognizedFlagError|IllegalFlagValueError|Unknown command line flag|Flag --\S+ must have",  # absl
    re.MULTILINE,
)
_FLAG_NAMES = r"\b(?:ps_hosts|worker_hosts|job_name|task_index)\b"
_OF_ROLE = re.compile(
    r"TF_CONFIG|/tfconfig_cluster_resolver\.py\"|ClusterSpec|/server_lib\.py\"|[Cc]luster spec must be|/absl/flags/"
    r"|Could not start gRPC server|Could not parse port for local server|Address already in use"
    r"|^KeyError: '(?:cluster|task|type|index|ps|worker|chief|master|evaluator)'"
    r"|<frozen os>[\s\S]*^KeyError: |sys\.argv[\s\S]*^(?:IndexError|ValueError): "
    rf"|(?:{_FLAG_NAMES}|\.cluster\b)[\s\S]*^(?:AttributeError: 'NoneType'|TypeError: .*None|ValueError: invalid literal for int)"
    rf"|^(?!Namespace)\S.*{_FLAG_NAMES}.*\b(?:required|missing|must|unknown|invalid|expected|not)\b",
    re.MULTILINE,
)
# Mistakes in the code, whatever its surroundings.
_PERMANENT = re.compile(r"(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError|NameError): |AttributeError: module '")
# These may follow from what is not there yet, such as a checkpoint; `model_fn failed` is a psclust program's.
_SUSPECT = re.compile(
    r"(?:AssertionError|AttributeError|KeyError|NotImplementedError|TypeError|UnboundLocalError|ValueError|ZeroDivisionError)\b"
    r"|(?:model_fn|input_fn) failed "
)
_OF_SURROUNDINGS = re.compile(r"checkpoint|save_path|None|file|director|exist|found|connect|time|available", re.IGNORECASE)


def diagnose(lines: Sequence[str]) -> Diagnosis:
    """`lines`: the last ones of a task that failed by itself."""
    part, error = _failure([line.rstrip() for line in lines if line.strip()])
    text = "\n".join(part)
    usage = _USAGE.search(text) is not None
    known, match = next(((known, match) for known in KNOWN if (match := known.pattern.search(text))), (None, None))
    return Diagnosis(
        error,
        remedy=f"{known.remedy.format(**match.groupdict())} ({known.page})" if known and match else None,
        of_role=usage or _OF_ROLE.search(text) is not None,
        permanent=usage or _PERMANENT.match(error) is not None or (known is not None and known.permanent),
        suspect=_SUSPECT.match(error) is not None and _OF_SURROUNDINGS.search(error) is None,
    )


def _failure(lines: Sequence[str]) -> tuple[Sequence[str], str]:
    """The last traceback, with those it is chained to, and the line of its exception; without one the last lines, and the very last."""
    starts = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not starts:
        return lines[-_WITHOUT_TRACEBACK:], lines[-1].strip() if lines else ""
    first = starts.pop()
    error = next((line for line in lines[first + 1 :] if not line.startswith(" ")), "")
    while starts and lines[first - 1].startswith(_CHAINED):
        first = starts.pop()
    return lines[first:], error
