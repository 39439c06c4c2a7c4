"""A run in the hands of its user: launch, handle, status, waiting, lists, forks."""
