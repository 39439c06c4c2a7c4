"""The supervisor, one detached process per run: starts, restarts and ends learner and actors, and answers calls."""
