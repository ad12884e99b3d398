"""What the status of a pod says: whether it runs, what it waits for, and what waiting cannot mend.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Reasons why a container waits that pass by themselves.
_PASSING = {"ContainerCreating", "PodInitializing"}
# The first failure to pull may pass (ErrImagePull); Kubernetes then says ImagePullBackOff.
_RETRIED = {"ErrImagePull"}
_PYTHON = "Is there a python3 in the image? `python:` names another one."
_REMEDIES = {
    "ImagePullBackOff": "Check kubernetes.image, and that the cluster may pull it.",
    "InvalidImageName": "Check kubernetes.image.",
    "ErrImageNeverPull": "Check kubernetes.image.",
    "CreateContainerConfigError": "Check kubernetes.secrets.",
    "RunContainerError": _PYTHON,
    "CreateContainerError": _PYTHON,
    "StartError": _PYTHON,
    "ContainerCannotRun": _PYTHON,
}


@dataclass(frozen=True, slots=True)
class PodState:
    """phase: Kubernetes' word. address: of a pod that runs. waits: why it does not run yet, in
    Kubernetes' words. failed: waiting is of no use, with what to do. leaving: it is being
    deleted."""

    phase: str
    address: str | None = None
    waits: str | None = None
    failed: str | None = None
    leaving: bool = False

    def __str__(self) -> str:
        return self.failed or (f"{self.phase}: {self.waits}" if self.waits else self.phase)


def read_state(pod: Mapping[str, Any]) -> PodState:
    status: Mapping[str, Any] = pod.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    leaving = bool(pod["metadata"].get("deletionTimestamp"))
    if leaving:
        return PodState("Terminating", leaving=True)
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    if (
        phase == "Running"
        and all(state.get("running") is not None for state in states)
        and status.get("podIP")
    ):
        return PodState(phase, address=status["podIP"])
    if phase in ("Failed", "Succeeded"):
        return PodState(phase, failed=_end(phase, status, states))
    for state in states:
        waiting = state.get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if reason and reason not in _PASSING:
            said = _joined(reason, waiting.get("message"))
            if reason in _RETRIED:
                return PodState(phase, waits=said)
            return PodState(phase, failed=_with_remedy(reason, said))
        if state.get("terminated"):
            return PodState(phase, failed=_end(phase, status, states))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return PodState(
                phase,
                waits=_joined(
                    str(condition.get("reason") or "not scheduled"), condition.get("message")
                ),
            )
    return PodState(phase)


def _end(phase: str, status: Mapping[str, Any], states: list[Mapping[str, Any]]) -> str:
    if status.get("reason"):
        return _joined(str(status["reason"]), status.get("message"))
    for state in states:
        ended = state.get("terminated") or {}
        if ended:
            reason = str(ended.get("reason") or "ended")
            return _with_remedy(
                reason,
                _joined(f"{reason}, exit code {ended.get('exitCode')}", ended.get("message")),
            )
    return phase


def _with_remedy(reason: str, said: str) -> str:
    return f"{said}. {_REMEDIES[reason]}" if reason in _REMEDIES else said


def _joined(reason: str, message: object) -> str:
    """In one line, without an end."""
    said = " ".join(str(message or "").split())
    return (f"{reason}: {said}" if said else reason).rstrip(".")
