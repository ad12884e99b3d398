"""A machine with a GPU, as far as nvidia-smi tells it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Both queries of a T4 whose processes are those of a program, and of another user's.
_NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=uuid,utilization.gpu)
    echo "GPU-5f0d2f0a-9d8b-2f0c-9a52-2d5a1f3c7e10, 37"
    echo "GPU-0a61d7f4-5b0e-7c1e-1f60-f0a1d0c5b2aa, [N/A]";;
  --query-compute-apps=pid,gpu_uuid,used_memory)
    for pid in $(pgrep -f "{program}"); do
      echo "$pid, GPU-5f0d2f0a-9d8b-2f0c-9a52-2d5a1f3c7e10, 1024"
    done
    echo "999999999, GPU-0a61d7f4-5b0e-7c1e-1f60-f0a1d0c5b2aa, [N/A]";;
  *) echo "Invalid combination of input arguments." >&2; exit 2;;
esac
"""


def with_fake_gpu(folder: Path, program: str) -> Mapping[str, str]:
    """The environment in which tasks whose command line has `program` use a GPU."""
    fake = folder / "gpu" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(_NVIDIA_SMI.replace("{program}", program), encoding="utf-8")
    fake.chmod(0o755)
    return {"PATH": f"{fake.parent}:{os.environ['PATH']}"}
