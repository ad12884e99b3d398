"""The limits of preloading: what is fixed in a process that has loaded TensorFlow, and so in every
task forked from it. That is the modules it has imported, and the environment variables that are
read only once: while the library is loaded, the interpreter starts or `import tensorflow` runs.
Tasks that differ in one of them get another fork server, or are executed: slower, with the same
result. The lists come from tracing getenv and os.environ; any other variable takes effect in a
forked task too."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Literal

# What the fork server of a task has loaded; a task without one is executed, not forked.
Preload = Literal["library", "tensorflow", "psclust", "keras"]

# fmt: off
LIBRARY_READS = (
    "DISABLE_HOST_SEND_RECV_REGISTRATION", "GCS_", "GLIBC_", "GRPC_THREAD_POOL_VERBOSE_FAILURES",
    "LD_", "LLVM_OVERRIDE_PRODUCER", "MALLOC_", "OPENSSL_", "PSCLUST_KERNELS", "TF_CPP_",
    "TF_CUFFT_WORKSPACE_LIMIT_IN_MB", "TF_ENABLED_DEVICE_TYPES", "TF_ENABLE_ONEDNN_OPTS",
    "TF_USE_MODULAR_FILESYSTEM",
)
"""Prefixes of the names that `libtensorflow_cc`, the C library and what is loaded with them
read."""

IMPORT_READS = (
    *LIBRARY_READS,
    "GFORTRAN_", "GOMP_", "HDF5_", "KERAS_", "KMP_", "LANG", "LC_", "NPY_", "NUMPY_", "OMP_",
    "OPENBLAS_", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "PYTHON", "SCIPY_ARRAY_API",
    "TF_ENABLE_CONTROL_FLOW_V2", "TF_FORWARD_COMPATIBILITY_DELTA_DAYS",
    "TF_FUNCTION_JIT_COMPILE_DEFAULT", "TF_JIT_COMPILE_REWRITE", "TF_NP_",
    "TF_OPTIONALS_IN_GRADIENTS", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "TF_USE_LEGACY_KERAS",
    "TF_XLA_SHARDING_FOR_RESOURCE_VARIABLES", "WRAPT_DISABLE_EXTENSIONS",
)
"""The same for a Python interpreter that has imported TensorFlow."""
# fmt: on

REFRESHED = frozenset({"PYTHONPATH", "PYTHONUNBUFFERED", "OPENBLAS_NUM_THREADS"})
"""Exceptions: `psclust.runtime.forked_interpreter` brings these up to date in a forked task."""


# fmt: off
_IMPORTED = frozenset((
    "absl", "astunparse", "flatbuffers", "gast", "google", "h5py", "keras", "ml_dtypes", "namex",
    "numpy", "opt_einsum", "optree", "packaging", "requests", "rich", "scipy", "six", "tensorflow",
    "termcolor", "typing_extensions", "urllib3", "wrapt",
))
# Modules of the standard library that TensorFlow does not import; programs often have their own of
# that name.
_NOT_IMPORTED = frozenset((
    "cgi", "chunk", "cmath", "configparser", "curses", "dbm", "doctest", "filecmp", "getopt",
    "graphlib", "imp", "mailbox", "modulefinder", "optparse", "pipes", "profile", "pstats", "sched",
    "shelve", "sqlite3", "statistics", "symtable", "test", "this", "trace", "tracemalloc", "tty",
    "turtle", "venv", "wave", "webbrowser",
))
# fmt: on


def is_imported(module: str) -> bool:
    """Whether TensorFlow imports the module. A program with its own module of that name cannot be
    forked."""
    return module in _IMPORTED or (
        module in sys.stdlib_module_names and module not in _NOT_IMPORTED
    )


def is_read(name: str, load: Preload) -> bool:
    """Whether a fork server of that kind reads the variable once, before it forks."""
    return (
        name.startswith(LIBRARY_READS if load == "library" else IMPORT_READS)
        and name not in REFRESHED
    )


def stale(wanted: Mapping[str, str], have: Mapping[str, str], reads: tuple[str, ...]) -> set[str]:
    """The variables whose values differ between a task and its fork server, and would have no
    effect in the task."""
    different = {name for name in {*wanted, *have} if wanted.get(name) != have.get(name)}
    return {name for name in different - REFRESHED if name.startswith(reads)}
