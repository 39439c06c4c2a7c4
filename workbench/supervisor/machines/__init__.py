"""What a cloud or a cluster says of a run's machines, and what the run does about it and tells it."""
