"""A bare TensorFlow server, `python -m psclust.runtime.bare_server`: the server behind
`tf.train.Server`, through the C library, without `import tensorflow`. In a child of a fork server
that has loaded the library, `serve` is called directly."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from psclust.errors import StartError
from psclust.runtime import server_request
from psclust.runtime.quiet_import import quiet_import
from psclust.runtime.server_def import Request
from psclust.runtime.tensorflow_library import Library, NoLibrary, Refused, load_library


def serve(argv: Sequence[str], library: Library | None = None) -> NoReturn:
    """Serve until killed, by Python's server where TensorFlow has no C library. library: if the
    process has loaded it."""

    def start_any(request: Request) -> object:
        try:
            return start(request, library)
        except NoLibrary as error:
            # Not before: a fork server must not have it, to run it as a program.
            from psclust.runtime import python_server

            sys.stderr.write(f"{error}: its Python server is used, which starts more slowly\n")
            return python_server.start(request)

    server_request.serve(argv, start_any)


def start(request: Request, library: Library | None = None) -> str:
    """Start the server; returns its address. Raises StartError."""
    if library is None:
        with quiet_import():
            library = load_library()
    for path in request.op_libraries:
        try:
            library.load_ops(path)
        except Refused as error:
            raise StartError(
                f"{request.name}: the op library {path} cannot be loaded: {error}"
            ) from error
    try:
        return library.start_server(request.encoded())
    except Refused as error:
        raise StartError(server_request.not_started(request, str(error))) from error


if __name__ == "__main__":
    serve(sys.argv[1:])
