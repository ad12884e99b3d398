"""The file a fresh interpreter runs in place of its program: `python OPTIONS interpreter_entry.py
WAIT OPTIONS PROGRAM ARGUMENTS`. It hands over to `run_in_interpreter`. Any Python can read this
file; one that cannot import psclust executes the program plainly."""

import os
import sys

if __name__ == "__main__":
    if sys.version_info >= (3, 10):  # noqa: UP036
        _here = os.path.dirname(os.path.abspath(__file__))
        # Under -I and -P this folder is not there.
        sys.path[:] = [entry for entry in sys.path if entry != _here]
        _before, _path = frozenset(sys.modules), list(sys.path)
        sys.path.append(os.path.dirname(os.path.dirname(_here)))
        try:
            from psclust.runtime import run_in_interpreter
        except ImportError:
            pass
        else:
            sys.path[:] = _path
            run_in_interpreter.run(sys.argv[1], sys.argv[2:], _before)
    os.execv(sys.executable, [sys.executable] + sys.argv[2:])  # noqa: RUF005 - for any Python
