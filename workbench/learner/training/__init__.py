"""Updates: the optimizer's step, several learners as one, exact resume, checkpoints."""
