"""What a user does with a run: launch, handle, status, waiting, lists, forks."""
