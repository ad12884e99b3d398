"""Run a program in a fresh interpreter with the same changes as in a forked one: `server.join()` is
reported, TensorFlow's 30 s wait is lowered, and a script that ended successfully keeps its server.
TensorFlow is patched when the program imports it, not imported here."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from psclust.runtime import run_script, stack_dump, tensorflow_patches
from psclust.runtime.shadowed_modules import hidden, path_entries
from psclust.spec.python_command import option_count


def run(wait: str, arguments: Sequence[str], before: Collection[str]) -> None:
    """Run the program in an interpreter's arguments. wait: the recovery wait in seconds, or `-`.
    before: modules that any interpreter has in memory. Returns if the program must run without this
    module: because of its options or form, or because its folder has a module with the name of one
    imported here."""
    options = option_count(arguments)
    program = run_script.program(arguments[options:]) if options is not None else None
    if program is None:
        return
    ours = {
        name: getattr(module, "__file__", None) or ""
        for name, module in sys.modules.items()
        if "." not in name and name not in before
    }
    ours.pop("__main__", None)
    if hidden(program.folder, ours):
        return
    python_path = path_entries(os.environ.get("PYTHONPATH", ""))
    library = tuple(os.path.join(entry, "") for entry in sys.path if entry not in python_path)
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, program.folder)
    sys.argv[:] = program.argv
    sys.orig_argv[1:] = arguments
    after_success = tensorflow_patches.patch(None if wait == "-" else float(wait), os.environ)
    stack_dump.offer_stacks(os.environ)
    present = frozenset(sys.modules) - {"__main__"}
    run_script.run(program, after_success, lambda: present | _installed(library))


def _installed(library: tuple[str, ...]) -> frozenset[str]:
    """The loaded modules that are built in, frozen or installed, not the program's own."""
    own = {"__main__"}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." not in name and file and not file.startswith(library):
            own.add(name)
    return frozenset(name for name in list(sys.modules) if name.partition(".")[0] not in own)
