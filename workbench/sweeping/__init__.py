"""Sweeps and populations: many short runs that look for better hyperparameters."""
