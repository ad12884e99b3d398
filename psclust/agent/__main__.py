"""`python -m psclust.agent`, which `psclust up` starts on every host; `--standing` is a standing
agent, which then runs the others."""

from __future__ import annotations

import sys

from psclust.agent.standing_protocol import STAY_HERE, delegate
from psclust.errors import PsclustError


def main(arguments: list[str]) -> int:
    if arguments == ["--standing"]:
        from psclust.agent.standing_agent import run_standing_agent

        return run_standing_agent()
    if arguments != [STAY_HERE]:
        code = delegate(["-m", "psclust.agent", STAY_HERE])
        if code is not None:
            return code
    from psclust.agent import process

    return process.main()


try:
    sys.exit(main(sys.argv[1:]))
except PsclustError as error:
    sys.stderr.write(f"{error}\n")
    sys.exit(error.exit_code)
