"""Atari games, on ale-py's own vector environment."""
