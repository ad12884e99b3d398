"""Carries what the tasks of a run send each other between its hosts, under TLS.

    host a                                            host b
    worker:0 -> 127.0.0.1:P   forwarder ==== TLS ====> forwarder -> 127.0.0.1:P   ps:0

Every task has the same address, 127.0.0.1:P, on every host. Where it does not run, the host's
forwarder listens there, and carries each connection by one of its own to the forwarder of the
task's host. Both sides show a certificate of the run's. Bytes of psclust's own wire do not pass
through it: it hands over connections, by which tasks speak TLS themselves (`wires`).
"""
