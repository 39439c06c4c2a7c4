"""A policy of a checkpoint that acts: for whoever plays it, and as an opponent in training."""
