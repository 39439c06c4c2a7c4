"""PettingZoo's parallel environments: the agents of a game are rows of the batch."""
