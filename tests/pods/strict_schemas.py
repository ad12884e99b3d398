"""Checks a manifest against the published schemas, and refuses every field that these do not know.

Objects of Kubernetes itself: `kubernetes-validate`. A JobSet: the models that Kubeflow generates
from JobSet's schema; they drop unknown fields silently, so every field must come back from them.
The rules that those models lack are from JobSet's API reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import kubernetes_validate
from kubeflow_trainer_api.models import JobsetV1alpha2JobSet

Object = Mapping[str, Any]
VERSION = "1.33.0"
_WORDS = {"operator": {"All", "Any"}, "status": {"Ready", "Complete"}}
# JobSet itself creates a Job and a pod of these names.
_LONGEST_NAME = 63


def check_core(found: Object) -> None:
    """Raises ValidationError for a Job or Service that breaks its schema."""
    kubernetes_validate.validate(dict(found), VERSION, strict=True)


def check_job_set(found: Object) -> None:
    """Raises AssertionError or ValidationError."""
    model = JobsetV1alpha2JobSet.from_dict(dict(found))
    assert model is not None
    assert list(lost(found, model.to_dict())) == []
    spec = found["spec"]
    jobs: Sequence[Object] = spec["replicatedJobs"]
    assert spec.get("successPolicy", {}).get("operator", "All") in _WORDS["operator"]
    assert set(spec.get("successPolicy", {}).get("targetReplicatedJobs", ())) <= {
        job["name"] for job in jobs
    }
    for position, job in enumerate(jobs):
        earlier = {other["name"] for other in jobs[:position]}
        assert all(
            need["name"] in earlier and need["status"] in _WORDS["status"]
            for need in job.get("dependsOn", ())
        )
        assert "dependsOn" not in job or position > 0
        assert len(job.get("dependsOn", ())) <= 5
        name = f"{found['metadata']['name']}-{job['name']}-0"
        assert len(f"{name}-{job['template']['spec']['completions'] - 1}-abcde") <= _LONGEST_NAME
        check_core(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name},
                "spec": job["template"]["spec"],
            }
        )
        check_rules_of_jobs(job["template"]["spec"])


def lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """The fields of `given` that `kept` lacks or has with another value."""
    if isinstance(given, Mapping) and isinstance(kept, Mapping):
        for key, value in given.items():
            yield from lost(value, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"]
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for index, (value, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(value, other, f"{path}[{index}]")
    elif given != kept:
        yield path


def check_rules_of_jobs(spec: Object) -> None:
    """What the schema of a Job cannot say, from its API reference."""
    restarts = spec["template"]["spec"]["restartPolicy"]
    for key in ("backoffLimitPerIndex", "podFailurePolicy"):
        assert key not in spec or restarts == "Never"
    assert ("maxFailedIndexes" in spec) <= ("backoffLimitPerIndex" in spec)
    assert spec["parallelism"] == spec["completions"]
