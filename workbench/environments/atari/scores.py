"""Published scores of people and of random play on the 57 Atari games, and scores measured by them.

`scores.csv`, one game a line: its name in ale-py, its id, and the scores of random play and of a professional
tester, from starts with up to 30 no-ops and from human starts.

Source: Wang et al. 2016 (arXiv 1511.06581), table 2 (no-ops) and table 3 (human starts). The no-op columns are those of
van Hasselt et al. 2016 (arXiv 1602.07714), table 1, and of DQN Zoo's atari_data.py too, number by number; they are what
later papers normalise by (Agent57, arXiv 2003.13350).
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

_VARIANT = re.compile(r"(-ram)?(NoFrameskip|Deterministic)?(-v\d+)?$")


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
    """All 57 by their name in ale-py, in the order of the alphabet."""
    text = resources.files("workbench.environments.atari").joinpath("scores.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    found = (GameScores(row["game"], row["id"], *(float(row[key]) for key in list(row)[2:])) for row in rows)
    return MappingProxyType({one.game: one for one in found})


def scores_of(game: str) -> GameScores | None:
    """The scores of "space_invaders", "SpaceInvaders", "ALE/SpaceInvaders-v5" or "SpaceInvadersNoFrameskip-v4".

    None for what is none of the 57 games.
    """
    return _by_plain_name().get(_plain(game))


def human_normalized(game: str, score: float, *, starts: Starts = "no-ops") -> float:
    """(score - random) / (human - random): 0 is random play, 1 the professional tester.

    Args:
        game: see `scores_of`.
        starts: by whose table; the agent's score must come from the same starts.

    Raises UnknownName for what is none of the 57 games.
    """
    known = scores_of(game)
    if known is None:
        raise UnknownName.among("game with a published human score", game, scores())
    random, human = ((known.random, known.human) if starts == "no-ops"
                     else (known.random_human_starts, known.human_human_starts))
    return (score - random) / (human - random)


@cache
def _by_plain_name() -> dict[str, GameScores]:
    return {_plain(one.game): one for one in scores().values()}


def _plain(game: str) -> str:
    return _VARIANT.sub("", game.removeprefix("ALE/")).replace("_", "").lower()
