"""What the learner measures of itself, and how that comes into the run's history."""
