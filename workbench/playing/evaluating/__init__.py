"""Evaluations of a policy: the returns of its episodes, their statistics, and the log of a run."""
