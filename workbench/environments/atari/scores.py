"""Published scores of people and of random play on the 57 Atari games, and normalisation by them.

`scores.csv`, one game a line: its name in ale-py, its id, and the scores of random play and of a professional
tester, from starts with up to 30 no-ops and from human starts.

Source: Wang et al. 2016 (arXiv 1511.06581), table 2 (no-ops) and table 3 (human starts). The no-op columns are those of
van Hasselt et al. 2016 (arXiv 1602.07714), table 1, and of DQN Zoo's atari_data.py, number by number; later papers
normalise by them (Agent57, arXiv 2003.13350).
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

from workbench.errors import UnknownName

Starts = Literal["no-ops", "human"]

_ID = re.compile(r"(\w+:)?(ALE/|\w+(NoFrameskip|Deterministic)-v)")
VARIANT = re.compile(r"(-ram)?(NoFrameskip|Deterministic)?(-v\d+)?$")


@dataclass(frozen=True)
class GameScores:
    """Mean returns on one game, not clipped.

    Attributes:
        game: its name in ale-py, such as "space_invaders".
        id: such as "ALE/SpaceInvaders-v5".
        random, human: from starts with up to 30 no-ops.
        random_human_starts, human_human_starts: from human starts.
    """

    game: str
    id: str
    random: float
    human: float
    random_human_starts: float
    human_human_starts: float


@cache
def scores() -> MappingProxyType[str, GameScores]:
    """The scores of all 57 games by their name in ale-py, in alphabetical order."""
    text = resources.files("workbench.environments.atari").joinpath("scores.csv").read_text(encoding="utf-8")
    return MappingProxyType({
        row["game"]: GameScores(row["game"], row["id"], *(float(row[key]) for key in list(row)[2:]))
        for row in csv.DictReader(text.splitlines())})


def scores_of(game: str) -> GameScores | None:
    """The scores of "space_invaders", "SpaceInvaders", "ALE/SpaceInvaders-v5" or "SpaceInvadersNoFrameskip-v4".

    None for a game that is not one of the 57.
    """
    return _by_plain_name().get(_plain(game))


def published(environment: str) -> GameScores | None:
    """The scores of an environment by its id, such as "ALE/Pong-v5"; None for any other, such as a class called Pong.
    """
    return scores_of(environment.rpartition(":")[2]) if _ID.match(environment) else None


def human_normalized(game: str, score: float, *, starts: Starts = "no-ops") -> float:
    """(score - random) / (human - random): 0 is random play, 1 the professional tester.

    Args:
        game: see `scores_of`.
        starts: of the table, and of the agent's score.

    Raises UnknownName for a game that is not one of the 57.
    """
    row = scores_of(game)
    if row is None:
        raise UnknownName.among("game with a published human score", game, scores())
    random, human = ((row.random, row.human) if starts == "no-ops"
                     else (row.random_human_starts, row.human_human_starts))
    return (score - random) / (human - random)


@cache
def _by_plain_name() -> dict[str, GameScores]:
    return {_plain(game): row for game, row in scores().items()}


def _plain(game: str) -> str:
    return VARIANT.sub("", game.removeprefix("ALE/")).replace("_", "").lower()
