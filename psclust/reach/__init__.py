"""Reaching hosts. ways.py: the table of ways, such as ssh/, all behind the protocol in
connections.py, and of what makes hosts, behind that in host_maker.py. python/: asking a host's
Python. ship/: sending folders. doctor/: checking hosts."""
