"""Starting, holding, changing and purging runs: what the command line and other programs call. A
request is read and checked (up_request, preflight), a supervisor is started and held (held_run),
agents are started on other hosts (host_agents), the run is planned (start_run) or a live run is
changed (live_run)."""
