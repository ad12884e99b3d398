"""`python -m psclust.agent`: what `psclust up` starts on every host. Where a standing agent is (`--standing`), that one runs it."""

from __future__ import annotations

import sys

from psclust.agent.standing_protocol import delegate
from psclust.errors import PsclustError

_HERE = "--here"


def main(arguments: list[str]) -> int:
    if arguments == ["--standing"]:
        return _stand()
    if arguments != [_HERE]:
        code = delegate(["-m", "psclust.agent", _HERE])
        if code is not None:
            return code
    from psclust.agent import process

    return process.main()


def _stand() -> int:
    from psclust.agent.standing_agent import stand

    try:
        return stand()
    except PsclustError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


sys.exit(main(sys.argv[1:]))
