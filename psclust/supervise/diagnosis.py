"""What the last lines of a failed task show: a failure with a known remedy, whether it is about the
task's role, and whether another attempt would fail alike. Pure: the lines are an argument."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from psclust.supervise.known_failures import KNOWN

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_AT = re.compile(r" at 0x[0-9a-f]+")
# Lines that count where there is no traceback; absl puts the flag above two lines of advice.
_WITHOUT_TRACEBACK = 5


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """error: the line that names the failure; "" if the task printed nothing. remedy: a sentence
    that ends with its page; None if the failure is not in `KNOWN`. of_role: the output speaks of
    flags, TF_CONFIG, a ClusterSpec or addresses. permanent: every attempt fails like this. suspect:
    every attempt does if two have."""

    error: str = ""
    remedy: str | None = None
    of_role: bool = False
    permanent: bool = False
    suspect: bool = False

    def repeats(self, before: Diagnosis) -> bool:
        """Whether an attempt failed as the one before; an object's address in the error may
        differ."""
        return self.suspect and _AT.sub("", self.error) == _AT.sub("", before.error)


NOTHING_KNOWN = Diagnosis()


_USAGE = re.compile(
    # argparse, optparse
    r"^\S.*: error: (?:unrecognized arguments|the following arguments are required"
    r"|one of the arguments|argument |ambiguous option|no such option|\S+ option requires)"
    # click
    r"|^Error: (?:No such option|Missing (?:option|argument|parameter)"
    r"|Got unexpected extra argument|Invalid value for)"
    # absl
    r"|Flags parsing error|UnrecognizedFlagError|IllegalFlagValueError"
    r"|Unknown command line flag|Flag --\S+ must have",
    re.MULTILINE,
)
_FLAG_NAMES = r"\b(?:ps_hosts|worker_hosts|job_name|task_index)\b"
_OF_ROLE = re.compile(
    r"TF_CONFIG|/tfconfig_cluster_resolver\.py\"|ClusterSpec|/server_lib\.py\""
    r"|[Cc]luster spec must be|/absl/flags/"
    r"|Could not start gRPC server|Could not parse port for local server|Address already in use"
    r"|^KeyError: '(?:cluster|task|type|index|ps|worker|chief|master|evaluator)'"
    r"|<frozen os>[\s\S]*^KeyError: |sys\.argv[\s\S]*^(?:IndexError|ValueError): "
    rf"|(?:{_FLAG_NAMES}|\.cluster\b)[\s\S]*"
    r"^(?:AttributeError: 'NoneType'|TypeError: .*None|ValueError: invalid literal for int)"
    rf"|^(?!Namespace)\S.*{_FLAG_NAMES}.*"
    r"\b(?:required|missing|must|unknown|invalid|expected|not)\b",
    re.MULTILINE,
)
# Mistakes in the code, whatever its surroundings.
_PERMANENT = re.compile(
    r"(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError|NameError): "
    r"|AttributeError: module '"
)
# These may follow from what is not there yet, such as a checkpoint; `model_fn failed` is a psclust
# program's.
_SUSPECT = re.compile(
    r"(?:AssertionError|AttributeError|KeyError|NotImplementedError|TypeError|UnboundLocalError"
    r"|ValueError|ZeroDivisionError)\b"
    r"|(?:model_fn|input_fn) failed "
)
_OF_SURROUNDINGS = re.compile(
    r"checkpoint|save_path|None|file|director|exist|found|connect|time|available", re.IGNORECASE
)


def diagnose(lines: Sequence[str]) -> Diagnosis:
    """`lines`: the last ones of a task that failed by itself."""
    part, error = _failure([line.rstrip() for line in lines if line.strip()])
    text = "\n".join(part)
    usage = _USAGE.search(text) is not None
    known, match = next(
        (
            (known, match)
            for known in KNOWN
            if (match := re.search(known.pattern, text, re.MULTILINE))
        ),
        (None, None),
    )
    return Diagnosis(
        error,
        remedy=f"{known.remedy.format(**match.groupdict())} ({known.page})"
        if known and match
        else None,
        of_role=usage or _OF_ROLE.search(text) is not None,
        permanent=usage
        or _PERMANENT.match(error) is not None
        or (known is not None and known.permanent),
        suspect=_SUSPECT.match(error) is not None and _OF_SURROUNDINGS.search(error) is None,
    )


def _failure(lines: Sequence[str]) -> tuple[Sequence[str], str]:
    """The last traceback, with those it is chained to, and the line of its exception; without one
    the last lines, and the very last."""
    starts = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not starts:
        return lines[-_WITHOUT_TRACEBACK:], lines[-1].strip() if lines else ""
    first = starts.pop()
    error = next((line for line in lines[first + 1 :] if not line.startswith(" ")), "")
    while starts and lines[first - 1].startswith(_CHAINED):
        first = starts.pop()
    return lines[first:], error
