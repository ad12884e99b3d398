"""Which tests this Python cannot run."""

from __future__ import annotations

import sys

# kmock needs Python 3.11.
collect_ignore = [] if sys.version_info >= (3, 11) else ["test_kube_api.py", "test_up_in_pods.py"]
