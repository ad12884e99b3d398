"""The cluster file in a pod: a variable of its container. So a JobSet is complete by itself, and
deleting it leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from psclust.errors import UsageError
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.load import Override, load

VARIABLE = "PSCLUST_FILE"


def render_file(file: ClusterFile) -> str:
    """The keys that the user has set, flags included, without those that only concern the
    manifest."""
    given = {"name": file.name} | file.model_dump(
        mode="json", exclude_unset=True, exclude={"hosts", "found", "suited", "kubernetes"}
    )
    return yaml.safe_dump(given, sort_keys=False, width=1000, default_flow_style=None)


def read_file(environ: Mapping[str, str]) -> ClusterFile:
    """The cluster file of this pod. Raises UsageError where there is none, ClusterFileError with
    every mistake."""
    text = environ.get(VARIABLE)
    if not text:
        raise UsageError(
            f"{VARIABLE} is not set: `psclust task` is what the pods of `psclust manifest` run; "
            "elsewhere write `psclust up`."
        )
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(
            f"{VARIABLE} is not YAML: {' '.join(str(error).split())}. "
            "Apply the manifest of `psclust manifest` again."
        ) from None
    if not isinstance(data, dict):
        raise UsageError(
            f"{VARIABLE} holds no keys of a cluster file. "
            "Apply the manifest of `psclust manifest` again."
        )
    return load(
        None,
        [Override(VARIABLE, (str(key),), value) for key, value in data.items()],
        default_name="cluster",
    )
