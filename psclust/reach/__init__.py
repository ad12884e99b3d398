"""Ways to reach a host, and what is done there before an agent runs: a Python is asked, folders are shipped, the host is checked."""
