"""The types of values in a cluster file: the notation of each (`90s`, `8MB`, `2300-2399`), and its
description for error messages and for the JSON Schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from psclust.placement.placement_settings import AUTO, NONE
from psclust.placement.policies import POLICIES

_TIME = r"^\s*(\d+(\.\d+)?)\s*(ms|s|m|h|d)?\s*$"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = r"^\s*(\d+)\s*([kKMGT]?B|[KMGT]iB)?\s*$"
_SIZES = {"B": 1, "kB": 1000}
for _power, _letter in enumerate("KMGT", 1):
    _SIZES |= {f"{_letter}B": 1000**_power, f"{_letter}iB": 1024**_power}


def _parse_seconds(value: object) -> object:
    """`90`, `1.5`, `"90s"`, `"10m"`, `"2h"` as seconds; anything else stays, to be refused."""
    match = re.fullmatch(_TIME, value) if isinstance(value, str) else None
    return float(match[1]) * _UNITS[match[3] or "s"] if match else value


def parse_bytes(value: object) -> object:
    """`8000000`, `"8MB"` (8 * 10^6), `"512KiB"` (512 * 2^10) as bytes; anything else stays, to be
    refused."""
    match = re.fullmatch(_SIZE, value) if isinstance(value, str) else None
    return int(match[1]) * _SIZES[match[2] or "B"] if match else value


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
    """A phrase that follows `write`, for our messages and, under this key, for editors."""
    return {"patternErrorMessage": text}


@dataclass(frozen=True, slots=True)
class _Form:
    """Texts that match a pattern, and a phrase for them (`in_words`)."""

    pattern: str
    words: str

    @property
    def text(self) -> Any:
        return Field(pattern=self.pattern, json_schema_extra=in_words(self.words))

    def text_or(self, *types: str) -> WithJsonSchema:
        """The schema where values of other types are read as such a text."""
        return WithJsonSchema(
            {"type": ["string", *types], "pattern": self.pattern} | in_words(self.words)
        )

    def keys(self, example: object) -> dict[str, Any]:
        """The schema of a mapping's keys, which some versions of pydantic leave out, and an
        example of the mapping."""
        names = {"pattern": self.pattern} | in_words(self.words)
        return {"propertyNames": names, "examples": [example]}


def such_as(*example: str | int) -> Any:
    """A list with at least one item, and an example."""
    return Field(min_length=1, json_schema_extra={"examples": [list(example)]})


_SCALAR = {"type": ["string", "number", "boolean"]}

Seconds = Annotated[
    float,
    BeforeValidator(_parse_seconds),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema(
        {"type": ["number", "string"], "minimum": 0, "pattern": _TIME}
        | in_words("seconds, or a time such as 90s, 10m or 2h")
    ),
]
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
_PORTS = _Form(
    r"^(auto|\d{1,5}|\d{1,5}-\d{1,5})$",
    "auto, a port such as 2222, or a range such as 2300-2399",
)
Ports = Annotated[str, BeforeValidator(_parse_ports), _PORTS.text, _PORTS.text_or("integer")]
# Programs get text, so a number in a list of arguments is one: `[--lr, 0.1]`.
Argument = Annotated[str, WithJsonSchema(_SCALAR)]
Arguments = Annotated[list[Argument], Field(json_schema_extra={"examples": [["--lr", "0.1"]]})]
Command = Annotated[list[Argument], such_as("./serve", "--verbose")]
_VARIABLE = _Form(r"^[^=\s]+$", "a variable's name without = or blanks")
EnvironmentValue = Annotated[str | int | float | bool, WithJsonSchema(_SCALAR)]
Environment = Annotated[
    dict[Annotated[str, _VARIABLE.text], EnvironmentValue],
    Field(json_schema_extra=_VARIABLE.keys({"LEVEL": 2})),
]
_JOB = _Form(
    r"^[a-z][a-z0-9_]*$",
    "a job's name in small letters, digits and _, such as ps or worker",
)
JobName = Annotated[str, _JOB.text]
JOBS_SCHEMA: dict[str, Any] = {"additionalProperties": False} | _JOB.keys({"ps": 1, "worker": 2})
ARRAY_TASK = "{array_task}"
_NAME = _Form(
    r"^([A-Za-z0-9]|\{array_task\})([A-Za-z0-9._-]|\{array_task\}){0,62}$",
    "a name of at most 63 letters, digits, '.', '_' and '-', such as mnist-2",
)
Name = Annotated[str, _NAME.text]
_ADDRESS = _Form(r"^[A-Za-z0-9_][A-Za-z0-9._-]*:\d{1,5}$", "host:port, such as 127.0.0.1:2222")
Addresses = Annotated[
    list[Annotated[str, _ADDRESS.text]], such_as("127.0.0.1:2222", "127.0.0.1:2223")
]
TaskIndex = Annotated[int, Field(strict=False, ge=0)]  # YAML keys are read as text
_INDEX = _Form(r"^\d+$", "a task's index, such as 0")
TaskArguments = Annotated[
    dict[TaskIndex, Arguments], Field(json_schema_extra=_INDEX.keys({"0": ["--verbose"]}))
]
TaskEnvironments = Annotated[
    dict[TaskIndex, Environment], Field(json_schema_extra=_INDEX.keys({"0": {"LEVEL": 2}}))
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


def _text_or_list(text: dict[str, Any], **of_list: Any) -> WithJsonSchema:
    """The schema of a list for which one text may stand."""
    return WithJsonSchema({"anyOf": [text, {"type": "array", "items": text, **of_list}]})


Lines = Annotated[
    list[str],
    BeforeValidator(_as_list),
    _text_or_list({"type": "string"}, examples=[["module load cuda"]]),
]
_TEXT = {"type": "string", "minLength": 1}
HostNames = Annotated[
    list[Text],
    BeforeValidator(_as_list),
    such_as("node1", "node2"),
    _text_or_list(_TEXT, minItems=1, examples=[["node1", "node2"]]),
]


def _split_list(value: object) -> object:
    return re.split(r"\s*,\s*", value.strip()) if isinstance(value, str) and value else value


EVERYBODY = "all"
Admitted = Annotated[
    list[Text], BeforeValidator(_split_list), _text_or_list(_TEXT, examples=[["10.0.0.7"]])
]


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
# `9400`: on this machine only.
_LISTEN = _Form(
    r"^([A-Za-z0-9_][A-Za-z0-9._-]*:)?\d{1,5}$",
    "a port such as 9400, or address:port such as 0.0.0.0:9400",
)
ListenAddress = Annotated[
    str, BeforeValidator(_parse_ports), _LISTEN.text, _LISTEN.text_or("integer")
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
_PATTERN = _Form(r"^\S+$", "a pattern of variable names such as embeddings/*")
Pins = Annotated[
    dict[Annotated[str, _PATTERN.text], Annotated[int, Field(ge=0)]],
    Field(json_schema_extra=_PATTERN.keys({"embeddings/*": 0})),
]
_PASSED = _Form(
    r"^[A-Za-z_*?][A-Za-z0-9_*?]*$", "a variable's name, or a pattern of names such as WANDB_*"
)
PassedNames = Annotated[list[Annotated[str, _PASSED.text]], such_as("HF_TOKEN", "WANDB_*")]
Lease = Annotated[Seconds, Field(ge=3)]  # a busy launcher may miss less than this
_LABEL = _Form(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "a name of small letters, digits and '-', such as team-a",
)
Label = Annotated[str, _LABEL.text]
_OBJECT = _Form(
    r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$",
    "the name of a Kubernetes object: small letters, digits, '-' and '.'",
)
ObjectName = Annotated[str, _OBJECT.text]
ObjectNames = Annotated[list[ObjectName], such_as("hf-token")]
_POD_KEY = _Form(r"^[a-z][A-Za-z]*$", "a key of a PodSpec, such as nodeSelector")
PodSpec = Annotated[
    dict[Annotated[str, _POD_KEY.text], Any],
    Field(json_schema_extra=_POD_KEY.keys({"nodeSelector": {"gpu": "a100"}})),
]
_MOUNT = _Form(r"^/[^:\s]*$", "a path such as /model")
Volumes = Annotated[
    dict[ObjectName, Annotated[str, _MOUNT.text]],
    Field(json_schema_extra=_OBJECT.keys({"model": "/model"})),
]
_RESOURCE = _Form(
    r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$", "a resource's name, such as cpu or memory"
)
Resource = Annotated[str, _RESOURCE.text]
_QUANTITY = _Form(r"^\d+(\.\d+)?(m|[kMGTPE]|[KMGTPE]i)?$", "a quantity such as 2, 500m or 8Gi")
Quantity = Annotated[str, _QUANTITY.text, _QUANTITY.text_or("integer", "number")]
Resources = Annotated[
    dict[
        JobName,
        Annotated[dict[Resource, Quantity], Field(json_schema_extra=_RESOURCE.keys({"cpu": 2}))],
    ],
    Field(json_schema_extra=_JOB.keys({"worker": {"cpu": 2, "memory": "8Gi"}})),
]


class KeyModel(BaseModel):
    """Refuses unknown keys and converts no values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
