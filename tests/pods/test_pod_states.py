"""What the status of a pod says, as Kubernetes and its container runtimes write it."""

from __future__ import annotations

from typing import Any

import pytest

from psclust.reach.kubernetes.pod_states import read_state


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "phase": "Pending",
        "containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}],
    }


def ended(phase: str, code: int, reason: str, message: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"phase": phase, "containerStatuses": [{"state": state}]}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 low memory.",
}


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        ({}, None),
        (waiting("ContainerCreating"), None),
        (
            {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
            "Unschedulable: 0/3 nodes are available: 3 low memory",
        ),
        (waiting("ErrImagePull", "no such host"), "ErrImagePull: no such host"),
        (
            {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
            None,
        ),  # without an address yet
    ],
)
def test_a_pod_that_may_run_later_waits(status: dict[str, Any], waits: str | None) -> None:
    state = read_state({"metadata": {}, "status": status})
    assert (state.address, state.failed, state.waits) == (None, None, waits)


@pytest.mark.parametrize(
    ("status", "failed"),
    [
        (
            waiting("ImagePullBackOff", 'Back-off pulling image "a"'),
            (
                'ImagePullBackOff: Back-off pulling image "a". '
                "Check kubernetes.image, and that the cluster may pull it."
            ),
        ),
        (
            waiting("CreateContainerConfigError", 'secret "hf" not found'),
            'CreateContainerConfigError: secret "hf" not found. Check kubernetes.secrets.',
        ),
        (
            ended("Failed", 128, "StartError", "no"),
            (
                "StartError, exit code 128: no. Is there a python3 in the image? "
                "`python:` names another one."
            ),
        ),
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "The node was low on resource: memory.",
            },
            "Evicted: The node was low on resource: memory",
        ),
        (ended("Succeeded", 0, "Completed"), "Completed, exit code 0"),
    ],
)
def test_what_waiting_cannot_mend_has_failed(status: dict[str, Any], failed: str) -> None:
    assert read_state({"metadata": {}, "status": status}).failed == failed


def test_a_pod_with_an_address_runs_unless_it_is_being_deleted() -> None:
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "containerStatuses": [{"state": {"running": {}}}],
    }
    assert read_state({"metadata": {}, "status": status}).address == "10.0.0.1"
    state = read_state(
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
    )
    assert (state.address, state.leaving) == (None, True)
