"""How a psclust program is named: `module:program`."""

from __future__ import annotations

import re

PSCLUST_PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
