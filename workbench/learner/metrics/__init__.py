"""What the learner measures of itself, and the recorder that writes it into the run's history."""
