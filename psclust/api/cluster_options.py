"""`psclust.Cluster`: the options of a `psclust up`, to start runs from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from psclust.api.run import Run

# Arguments whose option has another name.
_NAMED = {"jobs": "job"}


class Cluster:
    """A cluster to be started, perhaps several times.

    Arguments are the options of `psclust up`, with `_` for `-`: `Cluster(ps=2, workers=4,
    hosts="a,b", sync=True)`. `jobs={"chief": 1}` and `env={"NAME": "value"}` are mappings;
    `sync=False` is `--async`."""

    def __init__(self, **options: object) -> None:
        self._options = options

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: object) -> Cluster:
        """The cluster of a cluster file, with options laid over it, as `psclust up -f PATH` has
        it."""
        return cls(file=os.fspath(path), **options)

    def up(self, program: str | Sequence[str] = (), *, wait_s: float = 600.0) -> Run:
        """Starts it, and returns once every server accepts connections and every program runs.

        program: what `psclust up` takes, with arguments: "train.py", ["train.py", "--lr", "0.1"],
            "module:program"; nothing: bare servers, or the program of the file.
        wait_s: raises TimeoutError after that many seconds.

        Raises UsageError for a wrong request, StartError if the cluster cannot be started. It is no
        error here if the run ends at once; see `Run.wait`."""
        words = [program] if isinstance(program, str) else [str(word) for word in program]
        run = Run([*arguments(self._options), *words])
        try:
            run.wait_until_up(wait_s)
        except BaseException:
            run.down(now=True)
            raise
        return run


def arguments(options: Mapping[str, object]) -> list[str]:
    """Options as words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{_NAMED.get(name, name).replace('_', '-')}"
        if name == "sync" and value is False:
            words.append("--async")
        elif value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [f"{flag}={key}={entry}" for key, entry in value.items()]
        elif value is not None and value is not False:
            words.append(f"{flag}={value}")
    return words
