"""Two runs on different hosts that are pointed at one model folder, which those hosts share."""

from __future__ import annotations

import pytest
from on_hosts import isolated

from beds.command import CommandBed, typed
from beds.hosts import HostBed
from beds.learning import DIGITS
from psclust.testing.wait import wait_until

# The second waits for a minute before it gives up.
pytestmark = [pytest.mark.process, pytest.mark.tensorflow, pytest.mark.long]


@isolated
def test_the_second_is_refused_and_says_who_writes_there(far: CommandBed, hosts: HostBed) -> None:
    model, images = far.folder / "model", far.folder / "digits"
    words = typed(f"--ps 1 --workers 1 {DIGITS} --set data_dir={images} --model-dir {model}")
    far.done("up", "-d", "--name", "first", "-H", "h1", *words, "--set", "epochs=100000")
    wait_until((model / "writer.json").exists, what="the first writer")
    said = far.fails(1, "up", "--name", "second", "-H", "h2", *words)
    first = far.status("first")
    assert f"worker:0 of run {first.run} writes into this folder, on h1, and did not end" in said
    assert "choose another --model-dir" in said
    assert first.phase == "live"
    far.done("down", "first")
