"""`python -m psclust.train`: see `psclust.train.command_line`, which imports TensorFlow."""

from __future__ import annotations

import os
import sys

from psclust.failed_threads import end_when_threads_fail
from psclust.runtime.quiet_import import quiet_import


def _run() -> int:
    with quiet_import():
        from psclust.train.command_line import main
        from psclust.train.user_errors.user_lines import show_from_the_user_on
    sys.excepthook = show_from_the_user_on
    end_when_threads_fail()
    return main(sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(_run())
