"""A run's card: its configuration, its results, and the calls that repeat it."""
