"""`metrics: PORT`: a real Prometheus scrapes a run, and asks for every metric of
docs/metrics.md."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_gpu import with_fake_gpu

from beds.command import CommandBed
from beds.free_ports import free_ports
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
NAMES = re.findall(r"^\| `(psclust_\w+)`", PAGE, re.MULTILINE)
SCRAPES = "".join(re.findall(r"^    ((?:scrape_configs:|  ).*\n)", PAGE, re.MULTILINE))
# What a psclust program reports, without TensorFlow.
REPORTS = """
import json, os, time
step = 0
while True:
    step += 1
    record = {"step": step, "loss": 1 / step, "examples_per_s": 10.0, "phase": "train"}
    record |= {"metrics": {"staleness": 1.5}, "seconds": {"barrier": step / 10}}
    with open(os.environ["PSCLUST_PROGRESS"] + ".new", "w") as file:
        json.dump(record, file)
    os.replace(file.name, os.environ["PSCLUST_PROGRESS"])
    time.sleep(0.1)
"""
PLAIN = {
    "jobs": {"ps": 0, "worker": 2},
    "program": "reports.py",
    "preload": False,
    "role_by": "none",
}


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


@contextmanager
def prometheus(folder: Path, target: int, port: int) -> Iterator[str]:
    """The address of a Prometheus that scrapes the target every half second, as the page says."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    folder.mkdir()
    assert "9400" in SCRAPES
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms}\n" + SCRAPES.replace("9400", str(target))
    )
    where = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([program, *where], stdout=log, stderr=log) as process,
    ):
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def ask(address: str, query: str) -> list[dict[str, Any]]:
    """The samples that Prometheus has for a query; none while it starts."""
    try:
        reply = json.loads(
            get(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        )
    except (urllib.error.URLError, ConnectionError):
        return []
    assert reply["status"] == "success"
    found: list[dict[str, Any]] = reply["data"]["result"]
    return found


def test_prometheus_finds_every_metric_of_a_run(bed: CommandBed, tmp_path: Path) -> None:
    port = free_ports(2)
    bed.write("reports.py", REPORTS)
    bed.write("psclust.yaml", json.dumps({**PLAIN, "metrics": port}))
    bed.done("up", "-d", env=with_fake_gpu(tmp_path, "reports.py"))
    assert len(NAMES) > 10
    with prometheus(tmp_path / "prometheus", port, port + 1) as address:
        wait_until(lambda: len(ask(address, "psclust_task_global_step")) == 2, what="a scrape")
        assert [name for name in NAMES if not ask(address, name)] == []
        wait_until(
            lambda: ask(address, "rate(psclust_task_barrier_wait_seconds_total[10s]) > 0.5"),
            what="a rate",
        )
        (running,) = ask(address, 'psclust_tasks{state="running"}')
        assert (running["metric"]["cluster"], running["metric"]["job"], running["value"][1]) == (
            bed.name,
            "worker",
            "2",
        )
        assert ask(address, "up")[0]["value"][1] == "1"
        bed.done("down")
        wait_until(lambda: ask(address, "up")[0]["value"][1] == "0", what="the end of the run")


def test_a_port_in_use_is_refused_before_anything_starts(bed: CommandBed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = bed.fails(3, "up", "--ps", "1", "--metrics", str(port))
        assert re.fullmatch(
            rf"psclust: metrics: 127.0.0.1:{port} is already in use by .* \(pid \d+\)\. "
            r"Stop that process, or choose another port .*\n",
            said,
        )
        assert not bed.run_folder().supervisor_log.exists()
    said = bed.fails(3, "up", "--ps", "1", "--metrics", f"203.0.113.1:{port}")
    assert "cannot listen there" in said
