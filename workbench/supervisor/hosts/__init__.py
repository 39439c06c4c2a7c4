"""Where a run's processes live: on this machine, or on the nodes of a Ray cluster."""
