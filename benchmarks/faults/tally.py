"""What was found: a JSON object with a key for each case, and the table of docs/reliability.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from faults.cases import HOSTS, LOCAL, NAMES, SLURM, Case, Hit
from faults.hitting import Done

_TABLE = re.compile(r"(<!-- tally -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """One case. made: the faults that came in time, as `KILL task`. wrong: its violations."""

    place: str
    made: tuple[str, ...]
    seconds: float
    exit_code: int | None
    wrong: tuple[str, ...]


def found(
    case: Case, done: list[Done], seconds: float, code: int | None, wrong: list[str]
) -> Found:
    made = [f"{each.hit.kind} {_sort(case, each.hit)}" for each in done if each.how is not None]
    return Found(case.place, tuple(made), round(seconds, 1), code, tuple(wrong))


def _sort(case: Case, hit: Hit) -> str:
    if hit.victim in case.tasks:
        return hit.victim.partition(":")[0]
    if hit.victim in NAMES[case.place]:
        return "links" if hit.kind in ("CUT", "SLOW") else "agent"
    return re.sub(r" (of|to) \w+$", "", hit.victim)


def add(path: Path, case: Case, result: Found) -> None:
    """One line a case, sorted, so that a change of the file shows which were run."""
    cases = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    cases[f"{case.seed}/{case.number}"] = asdict(result)
    lines = [
        f" {json.dumps(key)}: {json.dumps(cases[key])}"
        for key in sorted(cases, key=lambda key: tuple(map(int, key.split("/"))))
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def write_page(page: Path, path: Path) -> None:
    """Put the table between the page's marks."""
    text = _TABLE.sub(
        lambda match: f"{match[1]}{table(json.loads(path.read_text(encoding='utf-8')))}{match[2]}",
        page.read_text(encoding="utf-8"),
    )
    page.write_text(text, encoding="utf-8")


def table(cases: dict[str, dict[str, object]]) -> str:
    """Faults by what they hit and where, then how many cases, and how many violations."""
    places = (LOCAL, HOSTS, SLURM)
    counts: Counter[tuple[str, str]] = Counter()
    for case in cases.values():
        for fault in case["made"]:  # type: ignore[attr-defined]
            counts[fault, str(case["place"])] += 1
    kinds = sorted({fault for fault, _ in counts})
    rows = [["fault", "one machine", "SSH hosts", "Slurm nodes"], ["---"] * 4]
    rows += [[kind, *(str(counts[kind, place] or "") for place in places)] for kind in kinds]
    for name, of in (
        ("**faults**", lambda case: len(case["made"])),
        ("**runs**", lambda case: 1),
        ("**runs with a violation**", lambda case: bool(case["wrong"])),
    ):
        sums = [
            sum(of(case) for case in cases.values() if case["place"] == place) for place in places
        ]
        rows.append([name, *map(str, sums)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
