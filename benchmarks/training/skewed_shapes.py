"""The variables of the skewed model, for ways that have no TensorFlow, too."""

from __future__ import annotations

# Like VGG: most of the bytes are in one variable. 89 MB.
SKEWED = {f"dense_{index}": [int(size * 250_000) // 250, 250] for index, size in enumerate((0.1, 7, 0.1, 64, 0.1, 16, 0.1, 2))}
