"""The types of values in a cluster file: the notation of each (`90s`, `8MB`, `2300-2399`), and its
description for error messages and for the JSON Schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from psclust.placement.placement_settings import AUTO, NONE
from psclust.placement.policies import POLICIES

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {
    "": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(("", "K", "M", "G", "T"))},
}
_SIZES |= {
    "kB": 1000,
    **{f"{letter}iB": 1024**power for power, letter in enumerate(("K", "M", "G", "T"), 1)},
}


def _parse_seconds(value: object) -> object:
    """`90`, `1.5`, `"90s"`, `"10m"`, `"2h"` as seconds. Raises ValueError for a text that is no
    duration."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", value)
    if match is None:
        raise ValueError(
            f"{value!r} is not a duration; write seconds, or a number with ms, s, m, h or d, "
            "for example 90s or 10m"
        )
    return float(match[1]) * _UNITS[match[2] or "s"]


def parse_bytes(value: object) -> object:
    """`8000000`, `"8MB"` (8 * 10^6), `"512KiB"` (512 * 2^10) as bytes. Raises ValueError for a text
    that is no size."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2] not in _SIZES:
        raise ValueError(
            f"{value!r} is not a size; write a number of bytes, or a number with KB, "
            "MB, GB, KiB, MiB or GiB"
        )
    return int(match[1]) * _SIZES[match[2]]


def _parse_shard_bytes(value: object) -> object:
    if value is None:
        return NONE
    word = value.strip() if isinstance(value, str) else value
    return word if word in (AUTO, NONE) else parse_bytes(value)


def _parse_ports(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def in_words(text: str) -> dict[str, Any]:
    """A pattern as a phrase that follows `write`, for our messages and, under the same key, for
    editors."""
    return {"patternErrorMessage": text}


def mapping_keys(pattern: str, text: str, example: object) -> dict[str, Any]:
    """The schema of a mapping's keys, which some versions of pydantic leave out, and an example."""
    return {"propertyNames": {"pattern": pattern} | in_words(text), "examples": [example]}


def such_as(*example: str | int) -> Any:
    """A list with at least one item, and an example."""
    return Field(min_length=1, json_schema_extra={"examples": [list(example)]})


_SECONDS = {
    "type": ["number", "string"],
    "minimum": 0,
    "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)?\s*$",
}
_SCALAR = {"type": ["string", "number", "boolean"]}

Seconds = Annotated[
    float,
    BeforeValidator(_parse_seconds),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema(_SECONDS | in_words("seconds, or a time such as 90s, 10m or 2h")),
]
_SIZE = r"^\s*\d+\s*([kKMGT]?B|[KMGT]iB)?\s*$"
ShardBytes = Annotated[
    Annotated[int, Field(ge=1)] | Literal["auto", "none"],
    BeforeValidator(_parse_shard_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["integer", "string"], "minimum": 1, "pattern": _SIZE},
                {"enum": [AUTO, NONE]},
            ]
        }
        | in_words("auto, none, or a size such as 8MB, 512KiB or 8000000")
    ),
]
# `auto`: the kernel picks; `2222`: task i of the job gets 2222 + i; `2300-2399`: the first free
# ones of the range.
_PORTS = r"^(auto|\d{1,5}|\d{1,5}-\d{1,5})$"
Ports = Annotated[
    str,
    BeforeValidator(_parse_ports),
    Field(pattern=_PORTS),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": _PORTS}
        | in_words("auto, a port such as 2222, or a range such as 2300-2399")
    ),
]
# Programs get text, so a number in a list of arguments is one: `[--lr, 0.1]`.
Argument = Annotated[str, WithJsonSchema(_SCALAR)]
Arguments = Annotated[list[Argument], Field(json_schema_extra={"examples": [["--lr", "0.1"]]})]
Command = Annotated[list[Argument], such_as("./serve", "--verbose")]
_VARIABLE = r"^[^=\s]+$"
EnvironmentName = Annotated[str, Field(pattern=_VARIABLE)]
EnvironmentValue = Annotated[str | int | float | bool, WithJsonSchema(_SCALAR)]
Environment = Annotated[
    dict[EnvironmentName, EnvironmentValue],
    Field(
        json_schema_extra=mapping_keys(
            _VARIABLE, "a variable's name without = or blanks", {"LEVEL": 2}
        )
    ),
]
_JOB, _JOB_WORDS = (
    r"^[a-z][a-z0-9_]*$",
    "a job's name in small letters, digits and _, such as ps or worker",
)
JobName = Annotated[str, Field(pattern=_JOB, json_schema_extra=in_words(_JOB_WORDS))]
JOBS_SCHEMA: dict[str, Any] = {"additionalProperties": False} | mapping_keys(
    _JOB, _JOB_WORDS, {"ps": 1, "worker": 2}
)
ARRAY_TASK = "{array_task}"
Name = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9]|\{array_task\})([A-Za-z0-9._-]|\{array_task\}){0,62}$",
        json_schema_extra=in_words(
            "a name of at most 63 letters, digits, '.', '_' and '-', such as mnist-2"
        ),
    ),
]
Address = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*:\d{1,5}$",
        json_schema_extra=in_words("host:port, such as 127.0.0.1:2222"),
    ),
]
TaskIndex = Annotated[int, Field(strict=False, ge=0)]  # YAML keys are read as text
_INDEX, _INDEX_WORDS = r"^\d+$", "a task's index, such as 0"
TaskArguments = Annotated[
    dict[TaskIndex, Arguments],
    Field(json_schema_extra=mapping_keys(_INDEX, _INDEX_WORDS, {"0": ["--verbose"]})),
]
TaskEnvironments = Annotated[
    dict[TaskIndex, Environment],
    Field(json_schema_extra=mapping_keys(_INDEX, _INDEX_WORDS, {"0": {"LEVEL": 2}})),
]
Text = Annotated[str, Field(min_length=1)]
TextOrTexts = Text | Annotated[list[Text], such_as("cpu", "gpu")]
# An editor may read 4:00:00 as a number of seconds; psclust reads it as written.
TimeLimit = Annotated[
    Text, WithJsonSchema({"type": ["string", "integer"]} | in_words("a time limit such as 4:00:00"))
]
_Nodes = Annotated[int, Field(ge=1)]
_Gpus = Annotated[int, Field(ge=0)]
NodeCounts = _Nodes | Annotated[list[_Nodes], such_as(1, 4)]
GpuCounts = _Gpus | Annotated[list[_Gpus], such_as(0, 2)]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) and value else value


_LINES = {"type": "array", "items": {"type": "string"}, "examples": [["module load cuda"]]}
Lines = Annotated[
    list[str], BeforeValidator(_as_list), WithJsonSchema({"anyOf": [{"type": "string"}, _LINES]})
]


_HOST_NAMES = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "minItems": 1,
    "examples": [["node1", "node2"]],
}
HostNames = Annotated[
    list[Text],
    BeforeValidator(_as_list),
    such_as("node1", "node2"),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, _HOST_NAMES]}),
]


def _split_list(value: object) -> object:
    return re.split(r"\s*,\s*", value.strip()) if isinstance(value, str) and value else value


EVERYBODY = "all"
_ADMITTED = {"type": "string", "minLength": 1}
Admitted = Annotated[
    list[Text],
    BeforeValidator(_split_list),
    WithJsonSchema(
        {"anyOf": [_ADMITTED, {"type": "array", "items": _ADMITTED, "examples": [["10.0.0.7"]]}]}
    ),
]
Addresses = Annotated[list[Address], such_as("127.0.0.1:2222", "127.0.0.1:2223")]


def _parse_switch(value: object) -> object:
    """The file is read as text here, for names of folders."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


# `true`, `false` or the name of a folder.
FolderOrSwitch = Annotated[
    bool | Annotated[str, Field(min_length=1)],
    BeforeValidator(_parse_switch),
    WithJsonSchema(
        {"type": ["boolean", "string"], "minLength": 1}
        | in_words("true, false or a folder such as logs")
    ),
]
_LISTEN = r"^([A-Za-z0-9_][A-Za-z0-9._-]*:)?\d{1,5}$"
# `9400`: on this machine only.
ListenAddress = Annotated[
    str,
    BeforeValidator(_parse_ports),
    Field(pattern=_LISTEN),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": _LISTEN}
        | in_words("a port such as 9400, or address:port such as 0.0.0.0:9400")
    ),
]
JobNames = Annotated[list[JobName], such_as("worker", "chief")]
ExitCodes = Annotated[list[Annotated[int, Field(ge=0, le=255)]], such_as(0, 1)]
Replication = Literal["in-graph", "between-graph", "coordinator"]
Update = Literal["sync", "async"]
Input = Literal["sharded", "handed_out"]


def _parse_times(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?x?", value):
        return float(value.rstrip("x"))
    return value


# How many times, such as `3x`.
Times = Annotated[
    float,
    BeforeValidator(_parse_times),
    Field(gt=1, allow_inf_nan=False),
    WithJsonSchema(
        {"type": ["number", "string"], "exclusiveMinimum": 1, "pattern": r"^\d+(\.\d+)?x?$"}
        | in_words("a number above 1, such as 3x")
    ),
]
ReachBy = Literal["ssh", "slurm", "kubernetes"]  # `psclust.reach.ways.WAYS` has each
if TYPE_CHECKING:
    PlacementPolicy = str
else:
    PlacementPolicy = Literal[tuple(POLICIES)]
_PATTERN = r"^\S+$"
Pins = Annotated[
    dict[Annotated[str, Field(pattern=_PATTERN)], Annotated[int, Field(ge=0)]],
    Field(
        json_schema_extra=mapping_keys(
            _PATTERN, "a pattern of variable names such as embeddings/*", {"embeddings/*": 0}
        )
    ),
]
_PASSED = r"^[A-Za-z_*?][A-Za-z0-9_*?]*$"
PassedName = Annotated[
    str,
    Field(
        pattern=_PASSED,
        json_schema_extra=in_words("a variable's name, or a pattern of names such as WANDB_*"),
    ),
]
PassedNames = Annotated[list[PassedName], such_as("HF_TOKEN", "WANDB_*")]
Lease = Annotated[Seconds, Field(ge=3)]  # a busy launcher may miss less than this
_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
Label = Annotated[
    str,
    Field(
        pattern=_LABEL,
        json_schema_extra=in_words("a name of small letters, digits and '-', such as team-a"),
    ),
]
_OBJECT = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_OBJECT_WORDS = "the name of a Kubernetes object: small letters, digits, '-' and '.'"
ObjectNames = Annotated[
    list[Annotated[str, Field(pattern=_OBJECT, json_schema_extra=in_words(_OBJECT_WORDS))]],
    such_as("hf-token"),
]
_POD_KEY, _POD_WORDS = r"^[a-z][A-Za-z]*$", "a key of a PodSpec, such as nodeSelector"
PodSpec = Annotated[
    dict[Annotated[str, Field(pattern=_POD_KEY, json_schema_extra=in_words(_POD_WORDS))], Any],
    Field(json_schema_extra=mapping_keys(_POD_KEY, _POD_WORDS, {"nodeSelector": {"gpu": "a100"}})),
]
_MOUNT = r"^/[^:\s]*$"
Volumes = Annotated[
    dict[
        Annotated[str, Field(pattern=_OBJECT)],
        Annotated[str, Field(pattern=_MOUNT, json_schema_extra=in_words("a path such as /model"))],
    ],
    Field(json_schema_extra=mapping_keys(_OBJECT, _OBJECT_WORDS, {"model": "/model"})),
]
_RESOURCE, _RESOURCE_WORDS = (
    r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$",
    "a resource's name, such as cpu or memory",
)
Resource = Annotated[str, Field(pattern=_RESOURCE, json_schema_extra=in_words(_RESOURCE_WORDS))]
_QUANTITY = r"^\d+(\.\d+)?(m|[kMGTPE]|[KMGTPE]i)?$"
Quantity = Annotated[
    str,
    Field(pattern=_QUANTITY),
    WithJsonSchema(
        {"type": ["string", "integer", "number"], "pattern": _QUANTITY}
        | in_words("a quantity such as 2, 500m or 8Gi")
    ),
]
Resources = Annotated[
    dict[
        JobName,
        Annotated[
            dict[Resource, Quantity],
            Field(json_schema_extra=mapping_keys(_RESOURCE, _RESOURCE_WORDS, {"cpu": 2})),
        ],
    ],
    Field(
        json_schema_extra=mapping_keys(_JOB, _JOB_WORDS, {"worker": {"cpu": 2, "memory": "8Gi"}})
    ),
]


class KeyModel(BaseModel):
    """Refuses unknown keys and converts no values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
