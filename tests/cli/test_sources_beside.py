"""Files beside a program that hide a module of TensorFlow's."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.launch.program_sources import read_scripts
from psclust.plan.cluster_layout import lay_out
from psclust.spec.cluster_file import ClusterFile


@pytest.mark.parametrize(
    ("beside", "hides"),
    [
        ("six.py", "six.py"),
        ("keras/__init__.py", "keras"),
        ("random.py", "random.py"),
        ("keras/data.txt", None),
        ("utils.py", None),
        ("profile.py", None),
        ("six.txt", None),
    ],
)
def test_a_file_that_hides_a_module_is_found(
    tmp_path: Path, beside: str, hides: str | None
) -> None:
    (tmp_path / "train.py").write_text("print('trains')")
    (tmp_path / beside).parent.mkdir(exist_ok=True)
    (tmp_path / beside).write_text("")
    file = ClusterFile(name="t", jobs={"worker": 1}, program="train.py", cwd=str(tmp_path))
    assert read_scripts(file, lay_out(file), {})["worker"].hides == hides
