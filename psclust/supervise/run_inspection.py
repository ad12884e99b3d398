"""What the tasks of a run do and use, found out beside the supervisor's thread, as it may take
seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from psclust.errors import RunEndedError
from psclust.supervise import events
from psclust.supervise.events import Event
from psclust.supervise.explain import Evidence, explain
from psclust.supervise.mailbox import Mailbox
from psclust.supervise.reading import FROZEN, Reading, read_task
from psclust.supervise.silence_reason import IDLE, POLLING, describe_silence, is_below
from psclust.supervise.task_finding import Finding, render
from psclust.transport.process_facts import Inspected, Inspector
from psclust.transport.task_usage import Usage

_WEIGHED_S = 5.0  # for which the tasks of a silent run are watched


class RunInspection:
    """Every method may take seconds and is for any thread but the supervisor's, to which `mailbox`
    leads. known: called on that thread; the evidence without what is found on the hosts, and what
    finds that. over: set when the run has ended."""

    def __init__(
        self,
        mailbox: Mailbox[Event],
        known: Callable[[], tuple[Evidence, Inspector]],
        over: threading.Event,
    ) -> None:
        self._mailbox = mailbox
        self._known = known
        self._over = over

    def explain(self) -> tuple[Finding, ...]:
        """What every task does, and which it waits for. Raises RunEndedError."""
        return explain(self._found(deeply=True))

    def readings(self) -> list[Reading]:
        """How far every task is and what it uses. Raises RunEndedError."""
        evidence = self._found(deeply=False)
        return [read_task(evidence, entry) for entry in evidence.state.tasks.values()]

    def post_explanation(self) -> None:
        """Explain why no step is made, to the rules and the user."""
        with suppress(RunEndedError):
            findings = self.explain()
            lines = render(findings, lambda seconds: f"{seconds:.0f} s")
            text = "\n".join(["no step is made; what each task does:", *lines])
            self._mailbox.post(events.Explained(text, findings))

    def look(self, look: events.Look) -> None:
        """Find out why the run is silent. Stacks are read only if no task is at work, or if that is
        of no matter."""
        with suppress(RunEndedError):
            idle = False
            if not look.evident:
                weighed = self._weighed()
                idle = is_below(IDLE, *weighed)
                if not is_below(POLLING, *weighed):
                    self._mailbox.post(events.Looked(look.since))
                    return
            evidence = self._found(deeply=True)
            findings = explain(evidence)
            reason = describe_silence(evidence, findings, idle=idle)
            self._mailbox.post(events.Looked(look.since, reason, findings))

    def _found(self, *, deeply: bool) -> Evidence:
        """With what is found on the hosts. deeply: where Python threads are, too, and which servers
        refuse connections."""
        evidence, inspect = self._mailbox.call(self._known)
        plans = [
            (entry.plan, entry.pid)
            for entry in evidence.state.tasks.values()
            if entry.pid is not None
        ]
        processes = [
            Inspected(str(plan.task), plan.host, pid, deeply and not plan.serves)
            for plan, pid in plans
        ]
        servers = [plan for plan, _ in plans if deeply and plan.role == "server"]
        addresses = [plan.address for plan in servers if plan.address]
        return replace(evidence, hosts=inspect(processes, addresses))

    def _weighed(self) -> tuple[dict[str, Usage | None], dict[str, Usage | None], float]:
        """The usage of each task before and after some seconds, and the number of seconds."""
        before, began = {each.task: each.usage for each in self.readings()}, time.monotonic()
        self._over.wait(_WEIGHED_S)
        after = {
            each.task: each.usage for each in self.readings() if each.state in ("running", FROZEN)
        }
        return before, after, time.monotonic() - began
