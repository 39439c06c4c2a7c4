"""PettingZoo's parallel environments: the agents of a game are rows of the batch."""

FAMILY = {"title": "PettingZoo's parallel environments", "packages": ("pettingzoo",), "extra": "multi-agent"}
