"""Package metadata and the optional server shim; settings of tools are in pyproject.toml."""

from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup

# The tools of `make test` and `make check`: `pip install psclust[test]`.
TEST = [
    "pytest>=8",
    "pytest-xdist>=3.5",
    "mypy>=1.11",
    "ruff>=0.6",
    "types-PyYAML",
    "types-psutil",
    "build>=1.2",
    "jsonschema>=4",
    "hypothesis>=6",
]
TEST += ["dockerfile-parse>=2", "coverage>=7.11", "matplotlib>=3.9"]
# The published schemas of Kubernetes' own objects, and models made from that of a JobSet.
TEST += ["kubernetes-validate>=1.33", "kubeflow-trainer-api>=2"]
# An API server for tests, without websockets, which aiohttp has.
TEST += ['kmock>=0.8; python_version >= "3.11"', "aiohttp>=3.9"]

DOCS = ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26"]
KUBERNETES = "kubernetes>=36"
# Each version requires TensorFlow of the same one: pip takes the one that fits if its command names
# TensorFlow's version (docs/install.md).
LEGACY_KERAS = "tf_keras>=2.15"
# TensorFlow requires the one of its version up to 2.20; since 2.21 it brings none.
TENSORBOARD = "tensorboard>=2.15"

NATIVE = Path("psclust/native")
KERNELS = ["kernels", "int8_kernels"]
WIRE = [
    "wire",
    "wire_kernels",
    "connection",
    "messages",
    "cancelled",
    "channel",
    "forwarded",
    "tls",
]
LIBRARIES = {
    "server_shim": ["server_shim", "admission", "peer_owner", "variables"],
    "kernels": [*KERNELS, *WIRE, "tensorflow_private", "variables"],
    "tls": ["tls", "carry", "admission", "peer_owner", "variables"],
}
PLAIN: Any = {
    "optional": True,
    "py_limited_api": True,
    "extra_compile_args": ["-O3", "-ffp-contract=off", "-include", str(NATIVE / "old_glibc.h")],
    # By file name: since glibc 2.34 they are empty, and `-ldl` would not make older ones load them.
    "extra_link_args": ["-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0"],
}

setup(
    name="psclust",
    version="0.1.0",
    description="Start, train on, watch and end TensorFlow parameter-server clusters",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["psclust", "psclust.*"]),
    package_data={
        "psclust": ["py.typed"],
        "psclust.agent": ["*.proto"],
        "psclust.cli.run_report": ["*.html"],
        "psclust.examples": ["*.ipynb"],
        "psclust.native": ["*.c", "*.h", "*.md"],
    },
    # Not Python modules but shared libraries, one loaded into servers with LD_PRELOAD, one by
    # TensorFlow, one by forwarders. Optional: without a C compiler psclust still installs;
    # `psclust up` reports that the shim is missing, programs that would use the kernels that those
    # are. The kernels round as TensorFlow's ops do: no product and sum in one.
    ext_modules=[
        Extension(
            f"psclust.native._{name}",
            [str(NATIVE / f"{file}.c") for file in files],
            depends=[str(header) for header in NATIVE.glob("*.h")],
            **PLAIN,
        )
        for name, files in LIBRARIES.items()
    ],
    # One wheel for every Python.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    install_requires=[
        "tensorflow>=2.15",
        "grpcio>=1.49",
        # TensorFlow brings it, with an upper bound; without TensorFlow the launcher needs it, too.
        "protobuf",
        "psutil>=5.9",
        "py-spy>=0.4.1",
        "fabric>=3.2",
        "paramiko>=3.4",
        "pathspec>=0.12",
        "pydantic>=2.7",
        "PyYAML>=6",
        "click>=8.1",
        "jinja2>=3.1",
        "rich>=13",
        "prometheus_client>=0.21",
    ],
    extras_require={
        "examples": ["scikit-learn>=1.4"],
        "pictures": ["scikit-learn>=1.4", "matplotlib>=3.9"],
        # `psclust up --kubernetes`. From 36 on it can end the standard input of a command.
        "kubernetes": [KUBERNETES],
        # tf.compat.v1.layers and the Keras layers of TensorFlow 1, with TF_USE_LEGACY_KERAS=1.
        "legacy-keras": [LEGACY_KERAS],
        "tensorboard": [TENSORBOARD],
        "bench": ["matplotlib>=3.9"],
        "docs": DOCS,
        "test": [
            *TEST,
            *DOCS,
            "nbclient>=0.10",
            "ipykernel>=6",
            "cloudpickle>=3",
            "scikit-learn>=1.4",
            LEGACY_KERAS,
            TENSORBOARD,
            KUBERNETES,
        ],
    },
    entry_points={
        "console_scripts": ["psclust = psclust.cli.main:main"],
        "pytest11": ["psclust = psclust.testing.pytest_plugin"],
    },
)
