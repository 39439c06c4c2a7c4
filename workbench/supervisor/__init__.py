"""One detached process per run: starts, restarts and ends learner and actors, and answers the run's control calls."""
