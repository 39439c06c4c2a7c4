"""Training: optimizer steps, several learners as one, exact resume, checkpoints."""
