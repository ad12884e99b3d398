"""What the last lines of a failed task show: whether the failure is about the task's role. Pure: the lines come in as an argument."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_WITHOUT_TRACEBACK = 5  # lines that count where there is no traceback; absl puts the flag above two lines of advice


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """of_role: the output speaks of flags, TF_CONFIG, a ClusterSpec or addresses."""

    of_role: bool = False


NOTHING_KNOWN = Diagnosis()

_USAGE = re.compile(
    r"^\S.*: error: (?:unrecognized arguments|the following arguments are required|one of the arguments|argument |ambiguous option"
    r"|no such option|\S+ option requires)"  # argparse, optparse
    r"|^Error: (?:No such option|Missing (?:option|argument|parameter)|Got unexpected extra argument|Invalid value for)"  # click
    r"|Flags parsing error|UnrecognizedFlagError|IllegalFlagValueError|Unknown command line flag|Flag --\S+ must have",  # absl
    re.MULTILINE,
)
_FLAG_NAMES = r"\b(?:ps_hosts|worker_hosts|job_name|task_index|role|cluster)\b"
_OF_ROLE = re.compile(
    r"TF_CONFIG|/tfconfig_cluster_resolver\.py\"|ClusterSpec|/server_lib\.py\"|[Cc]luster spec must be|/absl/flags/"
    r"|Could not start gRPC server|Could not parse port for local server|Address already in use"
    r"|^KeyError: '(?:cluster|task|type|index|ps|worker|chief|master|evaluator)'"
    r"|<frozen os>[\s\S]*^KeyError: |sys\.argv[\s\S]*^(?:IndexError|ValueError): "
    rf"|{_FLAG_NAMES}[\s\S]*^(?:AttributeError: 'NoneType'|TypeError: .*None|ValueError: invalid literal for int)"
    rf"|^(?!Namespace)\S.*{_FLAG_NAMES}.*\b(?:required|missing|must|unknown|invalid|expected|not)\b",
    re.MULTILINE,
)


def diagnose(lines: Sequence[str]) -> Diagnosis:
    """`lines`: the last ones of a task that failed by itself."""
    text = "\n".join(_failure([line.rstrip() for line in lines if line.strip()]))
    return Diagnosis(of_role=_USAGE.search(text) is not None or _OF_ROLE.search(text) is not None)


def _failure(lines: Sequence[str]) -> Sequence[str]:
    """The last traceback, with those it is chained to; without one the last lines."""
    starts = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not starts:
        return lines[-_WITHOUT_TRACEBACK:]
    first = starts.pop()
    while starts and lines[first - 1].startswith(_CHAINED):
        first = starts.pop()
    return lines[first:]
