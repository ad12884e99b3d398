"""The loop that a host's Python runs first: it answers questions from standard input until that
ends. The first question to a module carries the module's source.

Any Python 3 must understand this file, so that one that is too old can say so."""

import json
import os
import sys
from typing import Any

MARK = b"\x01psclust "


def main() -> None:
    stream = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not look like replies

    def reply(value: object) -> None:
        replies.write(MARK + json.dumps(value).encode("ascii") + b"\n")
        replies.flush()

    reply({"version": list(sys.version_info[:3]), "executable": sys.executable})
    modules: dict[str, Any] = {}  # an annotation in a function is never evaluated
    for line in iter(stream.readline, b""):
        question = json.loads(line.decode("utf-8"))
        name = question["do"]
        if name not in modules:
            modules[name] = {"__name__": "psclust_" + name}
            exec(compile(question["source"], name, "exec"), modules[name])
        try:
            reply({"answer": modules[name]["answer"](question, stream)})
        except OSError as error:
            reply(
                {
                    "error": ": ".join(
                        str(part) for part in (error.filename, error.strerror or error) if part
                    )
                }
            )


if __name__ == "__main__":
    main()
    os._exit(0)  # skip the interpreter's clean-up
