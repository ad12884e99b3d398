"""The sizes of the benchmark's models, for ways that have no TensorFlow, too."""

from __future__ import annotations

PIXELS, CLASSES = 784, 10
# The widths of hidden layers. 0.4 and 19 MB of variables.
WIDTHS = {"small": (128,), "large": (2048, 1536)}
# The embedding's table, 51 MB, and the rows of it that an example has.
ROWS, WIDTH, WORDS = 200_000, 64, 8
# Of a batch.
EXAMPLES = {"small": 32, "large": 32, "embedding": 256, "skewed": 1}
# Like VGG: most of the bytes are in one variable. 89 MB.
SKEWED = {
    f"dense_{index}": [int(size * 250_000) // 250, 250]
    for index, size in enumerate((0.1, 7, 0.1, 64, 0.1, 16, 0.1, 2))
}
