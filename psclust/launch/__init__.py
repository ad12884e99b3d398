"""From a request to a running supervisor: what `up` finds out, refuses and brings up before tasks start."""
