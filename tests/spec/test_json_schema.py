"""The JSON Schema for editors: valid itself, agreeing with the loader, and explaining every key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from written_files import mistakes, write

from psclust.spec.load import json_schema

SPECS = sorted((Path(__file__).parents[2] / "cluster_specs").glob("*.yaml"))

REFUSED_BY_BOTH = [
    "nmae: x",
    "name: a b",
    "jobs: {PS: 1}",
    "jobs: {ps: -1}",
    "jobs: {ps: two}",
    "jobs: {ps: {cuont: 1}}",
    "jobs: {ps: {task_args: {one: [a]}}}",
    "jobs: {ps: {addresses: [localhost]}}",
    "ports: http",
    "metrics: http",
    "tensorboard: ''",
    "tensorboard: [logs]",
    "update: both",
    "deadlines: {run: soon}",
    "recovery_wait: true",
    "env: {A: [1]}",
    "hosts: []",
    "hosts: [{slots: 2}]",
    "hosts: a\nhostfile: b",
    "program: ''",
    "ends_with: []",
    "placement: greedy",
    "placement: {policy: greedy}",
    "placement: {max_shard_bytes: 8 megabytes}",
    "placement: {max_shard_bytes: 8XB}",
    "placement: {pin: {'': 0}}",
    "placement: {pin: {a: -1}}",
    "placement: {pins: {a: 0}}",
    "sync: .",
    "ship: [.]",
    "pass_env: []",
    "pass_env: [A=1]",
    "ssh: {parallel: 0}",
]


def as_an_editor_sees(text: str) -> Any:
    """JSON has no numbers as keys."""
    return json.loads(json.dumps(yaml.safe_load(text)))


def is_valid(text: str) -> bool:
    return jsonschema.Draft202012Validator(json_schema()).is_valid(as_an_editor_sees(text))


def test_the_schema_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_cluster_spec_satisfies_it(path: Path) -> None:
    jsonschema.validate(as_an_editor_sees(path.read_text()), json_schema())


@pytest.mark.parametrize("text", REFUSED_BY_BOTH)
def test_editor_and_loader_refuse_the_same(text: str, tmp_path: Path) -> None:
    assert mistakes(write(tmp_path, text))
    assert not is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        "jobs: {ps: 1, worker: {count: 2}}",
        "hosts: a,b:4",
        "hosts: [a, 'b:4', {name: c, slots: 2}]",
        "hostfile: hosts.txt",
        "args: [--lr, 0.1, true]",
        "env: {A: 1, B: x, C: true}",
        "deadlines: {run: 2h, stop: 5}",
        "recovery_wait: false",
        "placement: balanced",
        "placement: {policy: round_robin, pin: {'a/*': 1}, max_shard_bytes: 8MB}",
        "placement: {max_shard_bytes: 8000000}",
        "ports: 2222",
        "ship: .",
        "pass_env: [HF_TOKEN, 'WANDB_*']",
        "env_file: .env",
        "ssh: {parallel: 4, deadline: 2m}",
        "jobs: {ps: {task_args: {0: [--x]}}}",
        (
            "kubernetes: {image: a/b:1, queue: team-a, resources: {ps: {cpu: 1, memory: "
            "8Gi}}, secrets: [t], volumes: {m: /m}}"
        ),
    ],
)
def test_every_form_of_a_value_satisfies_it(text: str) -> None:
    assert is_valid(text)


def test_every_key_of_a_file_and_of_a_job_is_explained() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    job = definitions["Job"]["anyOf"][1]
    for properties in (
        schema["properties"],
        job["properties"],
        definitions["Placement"]["anyOf"][1]["properties"],
        definitions["Restart"]["properties"],
        definitions["Deadlines"]["properties"],
        definitions["Ssh"]["properties"],
        definitions["Kubernetes"]["properties"],
    ):
        for key, part in properties.items():
            target = definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
            assert part.get("description") or target.get("description"), key
