"""Sentences for the user about a plan."""

from __future__ import annotations

from collections.abc import Mapping

from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import HostEnvironment


def hidden_notes(scripts: Mapping[str, ScriptFacts], *, preload: bool) -> list[str]:
    hidden = (facts.hides for facts in scripts.values() if preload)
    return [
        f"{name} in the program's folder hides a module that TensorFlow imports, "
        "so its tasks are executed, not forked: they start slower."
        for name in dict.fromkeys(hidden)
        if name is not None
    ]


def host_notes(launcher: HostEnvironment, hosts: Mapping[str, HostEnvironment]) -> list[str]:
    """`hosts`: those with an agent; none if all tasks run on the launching machine."""
    notes = []
    if "TF_CONFIG" in launcher.environ:
        notes.append(
            "TF_CONFIG in your environment belongs to another cluster; "
            "it is not passed to the tasks."
        )
    open_hosts = [name for name, here in hosts.items() if here.shim is None]
    if open_hosts or (launcher.shim is None and not hosts):
        where = f" on {', '.join(open_hosts)}" if open_hosts else ""
        notes.append(
            f"The server shim is missing{where}, so TensorFlow's servers listen on every "
            "interface, to everybody, and a session may wait for ever for a machine that is cut "
            "off. Install a C compiler (apt-get install gcc) and install psclust again."
        )
    return notes
