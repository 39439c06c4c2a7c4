"""Which environments explore how much, which only evaluate, which a frozen opponent plays; by their rows in the tables.

Actor a's environments are rows a·E … a·E + E-1, games of `agents` rows each; with n learners, rows of the learner of
rank a % n, where it counts as actor a // n. The last games of each actor evaluate, as
many as hold the environments that are asked for, so that scaling the actors moves no environment from one role to the
other. The last rows of every game are the opponent's, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds
from workbench.trajectory import Array


@dataclass(frozen=True)
class RoleTable:
    """The roles of the first `num_envs` rows under one configuration, worked out once.

    Attributes:
        ranks: see `ranks`; evaluating: see `evaluating`; opposing: see `opposing`.
    """

    config: RunConfig
    ranks: Array
    evaluating: Array
    opposing: Array

    @classmethod
    def of(cls, config: RunConfig, agents: int, num_envs: int, learner: int = 0) -> RoleTable:
        """The table of the learner of rank `learner`."""
        rows = np.arange(num_envs)
        return cls(config, ranks(rows, config, agents, learner), evaluating(rows, config, agents),
                   opposing(rows, config, agents))


def evaluating(env_ids: Array, config: RunConfig, agents: int = 1) -> Array:
    """bool [N]: whether each environment evaluates."""
    found: Array = env_ids % config.envs_per_actor >= _training_games(config, agents) * agents
    return found


def ranks(env_ids: Array, config: RunConfig, agents: int = 1, learner: int = 0) -> Array:
    """float32 [N]: place i/(M-1) of each environment among the run's M that train, 0 … 1; rows are of that learner."""
    per_game = agents - opposing_agents(config, agents)
    per_actor = _training_games(config, agents) * per_game
    game, agent = np.divmod(env_ids % config.envs_per_actor, agents)
    actor = env_ids // config.envs_per_actor * config.learners + learner
    place = actor * per_actor + game * per_game + agent
    found: Array = np.clip(place / max(1, config.actors * per_actor - 1), 0, 1).astype(np.float32)
    return found


def opposing(env_ids: Array, config: RunConfig, agents: int) -> Array:
    """bool [N]: whether the opponent acts for each environment."""
    found: Array = env_ids % agents >= agents - opposing_agents(config, agents)
    return found


def opposing_agents(config: RunConfig, agents: int) -> int:
    """Rows of each game that the opponent plays; 0 without one."""
    return 0 if config.opponent is None else config.opponent_agents or agents // 2


def check(config: RunConfig, spec: EnvironmentSpec) -> None:
    """Raises OutOfBounds where games do not fit into an actor, or leave nobody who learns or nobody to play against."""
    agents = spec.agents
    if config.envs_per_actor % agents:
        raise OutOfBounds(f"envs_per_actor={config.envs_per_actor} must be a multiple of groups_per_actor x agents: "
                          f"{agents} agents play each game of {spec.name}.")
    if config.opponent is not None and not 0 < opposing_agents(config, agents) < agents:
        choice = f", or choose opponent_agents in [1, {agents})" if agents > 1 else ""
        raise OutOfBounds(f"an opponent needs agents of its own beside those that learn, and {agents} play(s) each "
                          f"game of {spec.name}: leave the opponent out{choice}.")


def _training_games(config: RunConfig, agents: int) -> int:
    """Games of each actor that train: at least one."""
    games, asked = config.envs_per_actor // agents, config.evaluating_per_actor
    return max(1, games - -(-asked // agents))
