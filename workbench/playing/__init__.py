"""Agents that play: evaluations, rollouts, films, games with a person, the live view, exported policies."""
