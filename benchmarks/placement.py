"""How unevenly each policy spreads ten well-known models: bytes of the fullest ps over the mean.

    python benchmarks/placement.py [--ps 2 4 8 16 32 64]

1.00 is even; as many as there are ps means that one holds all. The numbers follow from the shapes
alone, so they are the same everywhere.
"""

from __future__ import annotations

import rows
import runs
from well_known_models import MODELS

from psclust.placement.placement_settings import NONE, PlacementSettings
from psclust.placement.policies import BALANCED, ROUND_ROBIN
from psclust.placement.table import tabulate
from psclust.placement.variable import Variable


def main() -> None:
    parser = runs.parser(__doc__, rounds=None)
    parser.add_argument("--ps", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64])
    options = parser.parse_args()
    found: list[rows.Row] = []
    print(f"{'model':<16} {'values':>7} {'policy':<20}" + "".join(f"{ps:>7}" for ps in options.ps))
    for model in MODELS:
        millions = sum(variable.elements for variable in variables(model)) / 1e6
        for name, settings in POLICIES.items():
            ratios = {ps: imbalance(model, ps, settings) for ps in options.ps}
            cells = "".join(f"{ratio:>7.2f}" for ratio in ratios.values())
            print(f"{model:<16} {f'{millions:.0f} M':>7} {name:<20}{cells}")
            found += [
                rows.Row("placement", f"{model}, {ps} ps", name, "fullest over mean", [ratio])
                for ps, ratio in ratios.items()
            ]
    rows.write(options.json, found)


POLICIES = {
    "the default": PlacementSettings(),
    "round robin, whole": PlacementSettings(ROUND_ROBIN, max_shard_bytes=NONE),
    "balanced, whole": PlacementSettings(BALANCED, max_shard_bytes=NONE),
}
# Variables of which a step needs some rows only.
TABLES = ("embeddings", "table", "softmax/weights")


def variables(model: str) -> list[Variable]:
    return [
        Variable(name, shape, sparse=name.startswith(TABLES)) for name, shape in MODELS[model]()
    ]


def imbalance(model: str, ps: int, settings: PlacementSettings) -> float:
    return tabulate(variables(model), ps, settings, workers=1).imbalance


if __name__ == "__main__":
    main()
