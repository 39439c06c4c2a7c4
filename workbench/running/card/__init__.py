"""A run's card: what it was, how it went, and what to call to have it again."""
