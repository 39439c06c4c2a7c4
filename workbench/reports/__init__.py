"""What is told of a run afterwards: its card, and evaluations of several runs together."""
