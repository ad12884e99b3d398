"""`python -m psclust.agent`: what `psclust up` starts on every host."""

from __future__ import annotations

import sys

from psclust.agent.process import main

sys.exit(main())
