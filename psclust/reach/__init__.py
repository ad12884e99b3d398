"""Reaching hosts. ways.py: the table of ways, such as ssh/, all behind the protocol in connections.py. python/: asking a host's Python.
ship/: sending folders. doctor/: checking hosts."""
