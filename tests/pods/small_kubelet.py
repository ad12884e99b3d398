"""What Kubernetes and the JobSet controller do with a manifest, in small: start pods when those
they depend on are ready, restart them, end all when the success policy says so. Without back-off
and scheduling."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from names_server import NamesServer
from pod_bed import Pod, PodBed

from beds.namespaces import Network
from psclust.testing.wait import PATIENCE_S


@dataclass
class SmallJob:
    """An indexed Job. `pods`: the present one of each index."""

    name: str
    spec: Mapping[str, Any]
    subdomain: str
    needs: Sequence[str] = ()
    pods: dict[int, Pod] = field(default_factory=dict)
    succeeded: set[int] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)
    failed: bool = False

    @property
    def complete(self) -> bool:
        return len(self.succeeded) == self.spec["completions"]

    @property
    def ready(self) -> bool:
        return len(self.pods) == self.spec["completions"] and all(
            pod.ready for pod in self.pods.values()
        )

    @property
    def hopeless(self) -> set[int]:
        """The exit codes of its pods that fail the Job at once."""
        rules = self.spec.get("podFailurePolicy", {}).get("rules", ())
        return {
            code
            for rule in rules
            if rule["action"] == "FailJob"
            for code in rule["onExitCodes"]["values"]
        }

    def exhausted(self, index: int) -> bool:
        """Whether a failure of this index was one too many."""
        if "backoffLimitPerIndex" in self.spec:
            return self.failures[index] > self.spec["backoffLimitPerIndex"]
        return sum(self.failures.values()) > self.spec["backoffLimit"]


class SmallKubelet:
    """Runs the objects of one manifest; call `run_until`. `decides`: the Jobs whose success ends it
    all; None: every Job."""

    def __init__(
        self, bed: PodBed, jobs: Sequence[SmallJob], decides: Sequence[str] | None
    ) -> None:
        self.bed = bed
        self.jobs = {job.name: job for job in jobs}
        self._decides = decides
        self.past: list[Pod] = []

    def run_until(
        self,
        condition: Callable[[], object],
        deadline_s: float = PATIENCE_S,
        *,
        what: str = "the condition",
    ) -> None:
        """Raises TimeoutError with the output of all pods."""
        end = time.monotonic() + deadline_s
        while not condition():
            self.step()
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{what} did not come true within {deadline_s:g} s:\n{self.output()}"
                )
            time.sleep(0.02)

    @property
    def succeeded(self) -> bool:
        names = self.jobs if self._decides is None else self._decides
        return all(self.jobs[name].complete for name in names)

    @property
    def failed(self) -> bool:
        return any(job.failed for job in self.jobs.values())

    def pod(self, task: str) -> Pod:
        """The present pod of `ps:0`."""
        name, _, index = task.partition(":")
        return next(job for job in self.jobs.values() if job.name.endswith(f"-{name}-0")).pods[
            int(index)
        ]

    def output(self, task: str = "") -> str:
        pods = [*self.past, *(pod for job in self.jobs.values() for pod in job.pods.values())]
        shown = [
            pod for pod in pods if not task or pod.name.endswith(f"-{task.replace(':', '-0-')}")
        ]
        return "\n".join(
            f"--- {pod.name} at {pod.address}, {pod.restarts} restarts\n{pod.output}"
            for pod in shown
        )

    def step(self) -> None:
        """One look at everything."""
        for job in self.jobs.values():
            if not job.pods and all(
                self.jobs[need].ready or self.jobs[need].complete for need in job.needs
            ):
                for index in range(job.spec["completions"]):
                    self._start(job, index)
            for index, pod in list(job.pods.items()):
                code = pod.process.poll()
                if code is not None and index not in job.succeeded and not job.failed:
                    self._ended(job, index, pod, code)

    def replace(self, task: str, *, lost: bool = False) -> Pod:
        """Put another pod in the place of a task's, at another address: its host is drained, or
        lost without a word to its peers."""
        pod = self.pod(task)
        if lost:
            self.bed.network.cut(pod.host)
        else:
            pod.end(signal.SIGTERM)
            pod.process.wait(PATIENCE_S)
        self.bed.remove(pod)
        job = self.jobs[pod.job]
        self.past.append(job.pods.pop(pod.index))
        self._start(job, pod.index)
        return job.pods[pod.index]

    def delete(self) -> None:
        """End all pods as `kubectl delete` does."""
        pods = [pod for job in self.jobs.values() for pod in job.pods.values()]
        for pod in pods:
            pod.end(signal.SIGTERM)
        for pod in pods:
            pod.process.wait(pod.template["spec"]["terminationGracePeriodSeconds"] + PATIENCE_S)

    def _start(self, job: SmallJob, index: int) -> None:
        job.pods[index] = self.bed.start(job.name, index, job.spec["template"], job.subdomain)

    def _ended(self, job: SmallJob, index: int, pod: Pod, code: int) -> None:
        if code == 0:
            job.succeeded.add(index)
            return
        job.failures[index] = job.failures.get(index, 0) + 1
        if code in job.hopeless or job.exhausted(index):
            job.failed = True
        elif job.spec["template"]["spec"]["restartPolicy"] == "OnFailure":
            pod.restarts += 1
            self.bed.restart(pod)
        else:
            self.bed.remove(pod)
            self.past.append(job.pods.pop(index))
            self._start(job, index)


@contextmanager
def kubelet(
    folder: Path,
    objects: Sequence[Mapping[str, Any]],
    claims: Mapping[str, Path] | None = None,
    secrets: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[SmallKubelet]:
    """Runs the manifest. `claims`, `secrets`: see `PodBed`. The folder `image` in `folder` is the
    working folder in every pod. Everything is gone at the end."""
    jobs, decides = _jobs(objects)
    count = sum(job.spec["completions"] for job in jobs)
    hosts = [f"p{number}" for number in range(1, 3 * count + 3)]
    (folder / "image").mkdir(exist_ok=True)
    with Network(hosts) as network, NamesServer(network.gateway) as names:
        runs = SmallKubelet(
            PodBed(folder, network, hosts, names, claims or {}, secrets or {}), jobs, decides
        )
        try:
            yield runs
        finally:
            for pod in [
                *runs.past,
                *(pod for job in runs.jobs.values() for pod in job.pods.values()),
            ]:
                runs.bed.remove(pod)


def _jobs(objects: Sequence[Mapping[str, Any]]) -> tuple[list[SmallJob], Sequence[str] | None]:
    first, *others = [each for each in objects if each["kind"] != "NetworkPolicy"]
    name = first["metadata"]["name"]
    if first["kind"] == "JobSet":
        spec = first["spec"]
        full = {job["name"]: f"{name}-{job['name']}-0" for job in spec["replicatedJobs"]}
        subdomain = spec["network"]["subdomain"]
        decides = spec.get("successPolicy", {}).get("targetReplicatedJobs", list(full))
        jobs = [
            SmallJob(
                full[job["name"]],
                job["template"]["spec"],
                subdomain,
                [full[need["name"]] for need in job.get("dependsOn", ())],
            )
            for job in spec["replicatedJobs"]
        ]
        return jobs, [full[job] for job in decides]
    for job in others:
        # A headless service gives the pods that it selects a name, if they ask for its subdomain.
        pod = job["spec"]["template"]
        assert pod["spec"]["subdomain"] == name
        assert first["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert (first["spec"]["clusterIP"], first["spec"]["publishNotReadyAddresses"]) == (
            "None",
            True,
        )
    return [SmallJob(job["metadata"]["name"], job["spec"], name) for job in others], None
