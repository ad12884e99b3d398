"""What `psclust doctor` checks, in this order:

log-in; python, tensorflow, psclust, packages, disk, memory, clock    quick_checks.py, which `up` makes too
gpus, names, proxies, server shim, exposure, network                    thorough_checks.py

examination.py asks the hosts (reach/python/on_host/: facts, surroundings, mesh); the checks turn answers into findings, each with its
remedy, and are pure."""
