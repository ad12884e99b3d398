"""The Grafana dashboard: Grafana's structure, and only metrics that a run serves. No Grafana opens
it here."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOARD = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
SERVED = set(
    re.findall(
        r"^\| `(psclust_\w+)`",
        (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)


def named(texts: list[str]) -> set[str]:
    return {name for text in texts for name in re.findall(r"\bpsclust_\w+", text)}


def test_each_panel_asks_for_served_metrics_and_no_metric_is_forgotten() -> None:
    expressions = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    assert named(expressions) == SERVED
    assert all(named([text]) for text in expressions)
    assert named([each["query"] for each in BOARD["templating"]["list"]]) <= SERVED
    counters = [re.search(r"\w+_total", text) for text in expressions]
    rated = [
        text
        for text, counter in zip(expressions, counters, strict=True)
        if counter and not text.startswith(("rate(", "sum by"))
    ]
    assert rated == []


def test_panels_lie_side_by_side_and_use_the_data_source_that_is_chosen() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    cells = [
        (place["x"] + column, place["y"] + row)
        for place in (panel["gridPos"] for panel in BOARD["panels"])
        for column in range(place["w"])
        for row in range(place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(column for column, _ in cells) < 24
    variables = {each["name"] for each in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(BOARD["panels"])))
    assert used == variables
    assert BOARD["schemaVersion"] >= 36
