"""Checkpoints in a page."""
