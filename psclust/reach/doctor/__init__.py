"""What `psclust doctor` checks, in this order:

quick_checks.py, which `up` makes too:
    log-in; python, tensorflow, psclust, packages, disk, memory, clock
thorough_checks.py:
    gpus, names, proxies, server shim, fork server, kernels, exposure, congestion, network

examination.py asks the hosts (reach/python/on_host/: facts, surroundings), network_examination.py
has them listen, dial each other and measure their links (on_host/mesh.py); the checks turn answers
into findings, each with its remedy, and are pure."""
