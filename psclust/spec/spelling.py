"""Explains values of the wrong type and misspelt keys. What a key takes is read from the JSON
Schema, so every key of the models has a message."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from ipaddress import IPv6Address

from pydantic import ValidationError

from psclust.spec.job_keys import Job
from psclust.spec.key_schema import Schema, alternatives, keys_at, schema_at
from psclust.spec.problems import KeyPath, Problem
from psclust.spec.program_command import split_program

# Keys of other tools -> ours.
_JOBS = {
    "ps": "ps",
    "worker": "worker",
    "chief": "chief",
    "master": "master",
    "evaluator": "evaluator",
}
_JOBS |= {"workers": "worker", "num_workers": "worker", "num_ps": "ps"}
_ELSEWHERE = {
    "environment": "env",
    "command": "program",
    "script": "program",
    "arguments": "args",
    "sync": "ship (the folder to send to hosts) or update: sync (synchronous training)",
    "async": "update: async",
    "timeout": "deadlines.run",
}
_ELSEWHERE_IN_A_JOB = {
    "environment": "env",
    "command": "run",
    "script": "run",
    "arguments": "args",
    "replicas": "count",
}
_FOR_ALL_JOBS = {"run": "program", "extra_args": "args"}
# Keys of the whole file -> what sets the same for one job.
_FOR_ONE_JOB = {
    "hostfile": "hosts: [node1]",
    "env_file": "env: {NAME: value}",
    "pass_env": "env: {NAME: value}",
    "role_by": 'placeholders in args, such as "--task={task_index}"',
    "replication": "run: program or run: server",
    "ship": "cwd",
}


def explain(error: ValidationError, data: object) -> list[Problem]:
    """One problem for every value that the models refuse; of a value with several notations, for
    the closest one."""
    problems: dict[KeyPath, Problem] = {}
    for entry in error.errors(include_url=False):
        path, value, missing = _locate(entry["loc"], data)
        if entry["type"] == "extra_forbidden":
            text = _unknown_key(path, value)
        elif entry["type"] == "missing":
            wanted = expected(schema_at((*path, missing)))
            text = f"the key '{missing}' is missing; write {wanted}."
        elif entry["loc"][-1] == "[key]":
            wanted = expected(_key_schema(schema_at(path[:-1])))
            text = f"found the key '{path[-1]}'; write {wanted}."
        else:
            text = f"found {found(value)}; write {_wanted(value, schema_at(path))}."
        if path not in problems or entry["type"] == "missing":
            problems[path] = Problem(path, text)
    above = {path[:length] for path in problems for length in range(len(path))}
    return [problem for path, problem in problems.items() if path not in above]


def found(value: object) -> str:
    """A value in YAML's words: `the text 'two'`, `true`, `a list`."""
    if isinstance(value, str):
        return (
            f"the text '{value[:40]}{'...' if len(value) > 40 else ''}'"
            if value
            else "an empty text"
        )
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping"
    return json.dumps(value, default=str)


def expected(schema: Schema) -> str:
    """What a schema accepts, as a phrase that follows `write`."""
    if "patternErrorMessage" in schema:
        return str(schema["patternErrorMessage"])
    if "anyOf" in schema:
        options = [expected(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return _or(options, comma=any("," in option for option in options))
    if "enum" in schema or "const" in schema:
        return _or(
            [
                found(value).removeprefix("the text ").strip("'")
                for value in schema.get("enum", [schema.get("const")])
            ]
        )
    kind = schema.get("type", "string")
    kind = kind if isinstance(kind, str) else kind[0]
    examples = schema.get("examples")
    if kind == "integer":
        return f"a whole number{_bounds(schema)}"
    if kind == "array":
        return f"a list such as {inline(examples[0])}" if examples else "a list"
    if kind == "object":
        keys = list(schema.get("properties", ()))
        return (
            f"a mapping such as {inline(examples[0])}"
            if examples
            else f"a mapping with keys such as {_join(keys[:3])}"
        )
    return {"boolean": "true or false", "number": "a number", "string": "a text"}[kind]


def inline(value: object) -> str:
    """A value as one line of YAML: `[--lr, 0.1]`, with quotes where YAML would misread a text."""
    if isinstance(value, list):
        return f"[{_join([inline(item) for item in value])}]"
    if isinstance(value, dict):
        return f"{{{_join([f'{key}: {inline(item)}' for key, item in value.items()])}}}"
    text = str(value)
    if not text.isprintable():
        return json.dumps(text)
    is_safe = re.fullmatch(r"[^\s\[\]{},:#&*!|>'\"%@`?][^\[\]{},]*", text) and not re.search(
        r": | #|:$|\s$|^- ", text
    )
    return text if is_safe else "'" + text.replace("'", "''") + "'"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is probably meant, if one is similar."""
    choices = list(known)
    tidy = word.lower().replace("-", "_")
    return tidy if tidy in choices else next(iter(get_close_matches(tidy, choices, 1, 0.65)), None)


def _wanted(value: object, schema: Schema) -> str:
    """`expected`; a text in place of a list (`--lr 0.1` for args) is repeated as a list."""
    usual, options = expected(schema), list(alternatives(schema))
    if isinstance(value, str) and ":port" in usual:
        return _wanted_address(value, usual)
    words = [word for option in options for word in option.get("enum", ()) if isinstance(word, str)]
    if isinstance(value, str) and words:
        near = nearest(value, words)
        return usual + (f" (did you mean {near}?)" if near else "")
    is_one_item = (
        isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""
    )
    kinds = {str(option.get("type")) for option in options}
    if is_one_item and "array" in kinds and "integer" not in kinds:
        with suppress(ValueError):
            return f"a list: {inline(shlex.split(str(value)))}"
    return usual


def _wanted_address(value: str, usual: str) -> str:
    scheme, found, rest = value.rpartition("://")
    address = (rest if found else value).strip("/")
    host, _, port = address.rpartition(":")
    for each in (address, host):
        with suppress(ValueError):
            IPv6Address(each.strip("[]"))
            here = f"127.0.0.1:{port if each == host else 2222}"
            return (
                f"the host's name or its IPv4 address, such as {here}; "
                "IPv6 addresses are not supported"
            )
    return f"{address}, without {scheme}://" if found and host and port.isdigit() else usual


def _unknown_key(path: KeyPath, value: object) -> str:
    key, known = str(path[-1]), keys_at(path[:-1])
    near = nearest(key, known)
    if near is not None:
        return f"unknown key; did you mean {near}?"
    if len(path) == 1:
        return _misplaced_at_top(key, known)
    return (
        _misplaced_in_a_job(key, value, known)
        if path[0] == "jobs" and len(path) == 3
        else _misplaced_below(key, known)
    )


def _misplaced_at_top(key: str, known: list[str]) -> str:
    meant = nearest(key, [*_JOBS, *_ELSEWHERE, *Job.model_fields]) or ""
    if meant in _JOBS:
        return f"unknown key; a job stands indented under jobs: {_JOBS[meant]}, with its count."
    if meant in _ELSEWHERE:
        return f"unknown key; write {_ELSEWHERE[meant]} instead."
    if meant in Job.model_fields:
        otherwise = f", or for all jobs {_FOR_ALL_JOBS[meant]}" if meant in _FOR_ALL_JOBS else ""
        return (
            f"unknown key; {meant} belongs to a job: write it indented under that job, "
            f"as jobs.worker.{meant}{otherwise}."
        )
    return f"unknown key; known here are {_join(known)}."


def _misplaced_in_a_job(key: str, value: object, known: list[str]) -> str:
    meant = nearest(key, _ELSEWHERE_IN_A_JOB) or ""
    run = f"run: {inline(_command_of(value))}"
    alone = run if key == "program" else _FOR_ONE_JOB.get(key)
    if alone is not None:
        return (
            f"unknown key; {key} belongs to the whole file: write it without indentation, "
            f"or for this job alone {alone}."
        )
    if key not in keys_at(()) and meant:
        return (
            "unknown key; write "
            f"{run if _ELSEWHERE_IN_A_JOB[meant] == 'run' else _ELSEWHERE_IN_A_JOB[meant]} instead."
        )
    return _misplaced_below(key, known)


def _command_of(value: object) -> list[object]:
    """What a job runs, as its own command."""
    words = value if isinstance(value, list) else split_program(str(value or "ps.py"))
    first = str(words[0]) if words else ""
    if first.startswith("-m "):
        return ["python", "-m", first[3:].strip(), *words[1:]]
    return ["python", *words] if first.endswith(".py") or first == "-m" else list(words)


def _misplaced_below(key: str, known: list[str]) -> str:
    if key in keys_at(()):
        return f"unknown key; {key} belongs to the whole file: write it without indentation."
    return f"unknown key; known here are {_join(known)}."


def _locate(loc: Sequence[str | int], data: object) -> tuple[KeyPath, object, str]:
    """The path of an error in the user's data. pydantic adds steps that do not exist in the data
    (the member of a union, `[key]`); the last of those names a missing key."""
    path: list[str | int] = []
    lost = ""
    for step in loc:
        if _holds(data, step):
            path.append(step)
            data = data[step]  # type: ignore[index]
        else:
            lost = str(step)
    return tuple(path), data, lost


def _holds(data: object, step: str | int) -> bool:
    if isinstance(data, dict):
        return step in data
    return isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data)


def _key_schema(schema: Schema) -> Schema:
    names = (each["propertyNames"] for each in alternatives(schema) if "propertyNames" in each)
    return next(names, {"patternErrorMessage": "a name"})


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return "" if low is None else f", {low} or more"


def _join(words: Sequence[object]) -> str:
    return ", ".join(map(str, words))


def _or(words: Sequence[str], comma: bool = False) -> str:
    words = list(dict.fromkeys(words))
    return (
        words[0] if len(words) == 1 else f"{_join(words[:-1])}{',' if comma else ''} or {words[-1]}"
    )
