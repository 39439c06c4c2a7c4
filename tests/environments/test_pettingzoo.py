"""Games of several agents behind the contract: who is out, what is held back, and every way to fail."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from tests.environments.games import CountingGame, Follower
from workbench.environments.contract import VectorEnvironment, random_actions, seeds_of
from workbench.environments.pettingzoo import family
from workbench.environments.pettingzoo.family import ParallelVector
from workbench.errors import EnvironmentFailed, MissingPackage, OutOfBounds, ShapeMismatch, UnknownName
from workbench.testing import CountingEnv, check_environment
from workbench.trajectory import Flags

OUT = int(Flags.ABSENT)
TERMINATED, TRUNCATED = int(Flags.TERMINATED | Flags.START), int(Flags.TRUNCATED | Flags.START)


def vector(num_envs=6, **options) -> ParallelVector:
    return ParallelVector("counting", lambda: CountingGame(**options), num_envs=num_envs, seed=3)


def test_rows_of_a_game_lie_side_by_side_in_the_order_of_its_agents():
    env = vector(6, lengths=(2, 3, 4))
    assert isinstance(env, VectorEnvironment)
    assert (env.spec.agents, env.num_envs, env.spec.num_actions) == (3, 6, 3)
    batch = env.reset()
    assert batch.flags.tolist() == [int(Flags.START)] * 6 and not batch.reward.any()
    counts = [CountingEnv.decode(row) for row in batch.observation]
    assert [count.life % 10 for count in counts] == [0, 1, 2] * 2, "agents"
    assert len({count.life // 10 for count in counts}) == 2, "games"


def test_an_agent_that_is_out_is_absent_until_the_next_game_which_brings_its_end_and_its_reward():
    env = vector(3, lengths=(2, 3, 4), ends=("terminated", "truncated", "terminated"))
    env.reset()
    flags, rewards, finals = [], [], []
    for _ in range(5):
        batch = env.step(np.zeros(3, int))
        flags.append(batch.flags.tolist())
        rewards.append(batch.reward.tolist())
        finals.append(batch.final_index.tolist())
        absent = (batch.flags & Flags.ABSENT) > 0
        assert not batch.observation[absent].any() and not batch.reward[absent].any()
        if finals[-1]:
            assert CountingEnv.decode(batch.final_observation[0])[1:] == (0, 3, 0)
    assert flags == [[0, 0, 0], [OUT, 0, 0], [OUT, OUT, 0], [TERMINATED, TRUNCATED, TERMINATED], [0, 0, 0]]
    assert finals == [[], [], [], [1], []]
    expected = [CountingGame.reward(0, agent, step) for agent, step in ((0, 2), (1, 3), (2, 4))]
    assert rewards[3] == np.array(expected, np.float32).tolist()


@pytest.mark.parametrize("lengths", [(3, 3), (1, 4), (4, 1, 2), (2,)])
def test_each_row_lives_one_step_after_the_other_whoever_else_is_out(lengths):
    """Every row's present steps are those of a life of its own: nothing lost, repeated, or of another agent."""
    k = len(lengths)
    env = vector(2 * k, lengths=lengths, ends=("alternate",) * k)
    rng = np.random.default_rng(0)
    rows = [Follower(agent=row % k, lengths=lengths) for row in range(2 * k)]
    batch = env.reset()
    for _ in range(60):
        finals = dict(zip(batch.final_index.tolist(), batch.final_observation if len(batch.final_index) else (),
                          strict=True))
        for row, checker in enumerate(rows):
            checker.see(batch.observation[row], float(batch.reward[row]), int(batch.flags[row]), finals.get(row))
        actions = rng.integers(3, size=2 * k)
        for row, checker in enumerate(rows):
            checker.act(int(actions[row]))
        batch = env.step(actions)
    assert all(checker.games > 5 for checker in rows)


def test_the_same_seed_gives_the_same_games_and_each_game_has_its_own():
    seen = []
    env = ParallelVector("counting", lambda: CountingGame(lengths=(2, 2), remember=seen), num_envs=4, seed=9)
    env.reset()
    env.reset(seed=5)
    assert seen == [*seeds_of(9, 2).tolist(), *seeds_of(5, 2).tolist()]


def test_endings_are_told_in_the_step_that_starts_the_next_game():
    env = ParallelVector("counting", lambda: CountingGame(lengths=(1, 2)), num_envs=2, seed=0, keeps_endings=True)
    env.reset()
    env.step(np.zeros(2, int))
    assert env.ending(0) is None
    env.step(np.zeros(2, int))
    assert [CountingEnv.decode(env.ending(row).observation).step for row in (0, 1)] == [1, 2]
    env.step(np.zeros(2, int))
    assert env.ending(1) is None


def test_actions_of_numbers_are_stretched_to_each_agents_box():
    got = []
    env = ParallelVector("boxes", lambda: CountingGame(lengths=(3, 3), actions=Box(-2.0, 6.0, (1,), np.float32),
                                                       got=got), num_envs=2, seed=0)
    assert env.spec.actions.kind == "tanh_normal"
    env.reset()
    env.step(np.array([[-1.0], [0.5]], np.float32))
    assert {agent: float(action[0]) for agent, action in got[0].items()} == {"a0": -2.0, "a1": 4.0}


def test_games_must_be_whole():
    with pytest.raises(OutOfBounds, match="num_envs=4 is .* of 3, such as num_envs=6; of a run, envs_per_actor .* x 3"):
        vector(4, lengths=(1, 1, 1))


def test_agents_with_other_spaces_are_refused_in_words():
    class Unequal(CountingGame):
        def action_space(self, agent):
            return Discrete(3 if agent == "a0" else 4)

    with pytest.raises(ShapeMismatch, match=r"'a0' and 'a1' differ in their action_space.*supersuit"):
        ParallelVector("unequal", lambda: Unequal(lengths=(1, 1)), num_envs=2, seed=0)


def test_action_masks_of_observations_are_known_and_those_of_infos_refused_in_words():
    class Masked(CountingGame):
        """Each agent may only do what it did not do last."""

        def observation_space(self, agent):
            return Dict(observation=super().observation_space(agent), action_mask=MultiBinary(3))

        def reset(self, seed=None, options=None):
            observations, infos = super().reset(seed=seed)
            self.last = dict.fromkeys(observations, 0)
            return self.masked(observations), infos

        def step(self, actions):
            assert all(self.last[agent] != action for agent, action in actions.items())
            self.last.update({agent: int(action) for agent, action in actions.items()})
            observations, *told = super().step(actions)
            return self.masked(observations), *told

        def masked(self, observations):
            return {agent: {"observation": one, "action_mask": np.arange(3) != self.last[agent]}
                    for agent, one in observations.items()}

    env, random = ParallelVector("masked", lambda: Masked(lengths=(3, 7)), num_envs=4, seed=0), np.random.default_rng(0)
    assert env.spec.action_mask.shape == (3,)
    batch = env.reset()
    for _ in range(50):
        batch = env.step(random_actions(env.spec, 4, random, batch.observation))
    with pytest.raises(EnvironmentFailed, match="AssertionError"):
        for _ in range(5):
            env.step(np.zeros(4, int))

    class Hinted(CountingGame):
        def reset(self, seed=None, options=None):
            observations, _ = super().reset(seed=seed)
            return observations, {agent: {"action_mask": np.ones(3)} for agent in self.agents}

    with pytest.raises(ShapeMismatch, match="action masks in its infos.*a Dict with one called 'action_mask'"):
        ParallelVector("hinted", lambda: Hinted(lengths=(1, 1)), num_envs=2, seed=0).reset()


class LeavesOut(CountingGame):
    """Forgets what `where` says of agent a1."""

    def __init__(self, where: int) -> None:
        super().__init__(lengths=(3, 3))
        self.where = where

    def step(self, actions):
        told = super().step(actions)
        told[self.where].pop("a1")
        return told


class Broken(CountingGame):
    def __init__(self, how: str) -> None:
        super().__init__(lengths=(3, 3))
        self.how = how

    def reset(self, seed=None, options=None):
        told = super().reset(seed=seed)
        if self.how == "late":
            self.agents = ["a0"]
        return told

    def render(self):
        return np.zeros((4, 4))

    def step(self, actions):
        told = super().step(actions)
        if self.how == "stays":
            told[2]["a0"] = True
        if self.how == "leaves":
            self.agents = ["a0"]
        if self.how == "nan":
            told[0]["a1"][:] = np.nan
        if self.how == "reward":
            told[1]["a1"] = np.inf
        if self.how == "text":
            told[1]["a1"] = "1"
        if self.how == "raises":
            raise KeyError("on purpose")
        return told


def test_a_frame_that_is_none_is_told():
    env = ParallelVector("broken", lambda: Broken("draws"), num_envs=2, seed=0)
    env._games[0].render_mode = "rgb_array"
    env.reset()
    with pytest.raises(EnvironmentFailed, match=r"in render: a frame must be uint8 \[H, W, 3\], not float64 \[4, 4\]"):
        env.render(1)


@pytest.mark.parametrize(("where", "what"), list(enumerate(["observation", "reward", "termination", "truncation"])))
def test_what_is_not_said_of_an_agent_is_named_with_the_agent(where, what):
    env = ParallelVector("forgets", lambda: LeavesOut(where), num_envs=4, seed=0)
    env.reset()
    with pytest.raises(EnvironmentFailed, match=rf"'forgets' \(index 0\) .* in step: agent 'a1': there is no {what}"):
        env.step(np.zeros(4, int))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("stays", "agent 'a0': it is in `agents`, and was terminated or truncated"),
        ("leaves", "agent 'a1': it is not in `agents`, and was neither terminated nor truncated"),
        ("nan", "agent 'a1': its observation has the value nan, which is not finite"),
        ("reward", "agent 'a1': reward inf is not a finite float32"),
        ("text", "agent 'a1': reward '1' is not a number"),
        ("raises", "raised KeyError in step: 'on purpose'"),
        ("late", "agent 'a1': it is not in `agents`"),
    ],
)
def test_a_game_that_breaks_a_rule_is_told_in_words(how, says):
    env = ParallelVector("broken", lambda: Broken(how), num_envs=2, seed=0)
    with pytest.raises(EnvironmentFailed) as raised:  # the late one in reset
        env.reset()
        env.step(np.zeros(2, int))
    assert says in str(raised.value)


def test_it_keeps_the_contract():
    def game():
        return CountingGame(lengths=(2, 5, 3), ends=("alternate", "terminated", "truncated"), number=1)

    seen = check_environment(game, steps=100)
    assert seen.absent > 0 and seen.truncated > 0 and seen.episodes > 0


# --- PettingZoo's own -------------------------------------------------------------------------------------------------


def test_the_names_are_pettingzoos_parallel_games():
    pytest.importorskip("pettingzoo", reason="PettingZoo is not installed")
    names = family.names()
    assert "pettingzoo/butterfly/knights_archers_zombies_v11" in names
    assert not any("connect_four" in name for name in names), "its agents take turns"
    with pytest.raises(UnknownName, match="cooperative_pong_v6"):
        family.check("pettingzoo/butterfly/cooperative_pong_v5", {})


def test_a_game_whose_package_is_missing_says_which_command_installs_it(monkeypatch):
    pytest.importorskip("pettingzoo", reason="PettingZoo is not installed")
    import sys

    monkeypatch.setitem(sys.modules, "pettingzoo.butterfly.pistonball_v6", None)
    with pytest.raises(MissingPackage, match=r"pip install 'pettingzoo\[butterfly\]'"):
        family.check("pettingzoo/butterfly/pistonball_v6", {})


def test_knights_that_die_before_the_game_is_over_are_absent_and_then_begin_with_all_others():
    pytest.importorskip("pettingzoo", reason="PettingZoo is not installed")
    pytest.importorskip("pygame", reason="its games need pygame")
    name = "pettingzoo/butterfly/knights_archers_zombies_v11"
    with pytest.raises(UnknownName, match="Did you mean .spawn_delay"):
        family.check(name, {"spawn_dely": 5})
    options = {"spawn_delay": 5, "max_cycles": 150}
    env = family.make(name, num_envs=8, seed=1, threads=1, options=options, show=None)
    assert env.spec.agents == 4
    rng, absent, starts = np.random.default_rng(0), 0, 0
    batch = env.reset()
    for _ in range(400):
        batch = env.step(rng.integers(env.spec.num_actions, size=8))
        absent += int((batch.flags == OUT).sum())
        start = (batch.flags & Flags.START).reshape(2, 4) > 0
        assert (start.all(1) == start.any(1)).all(), "a game begins for all of its agents at once"
        starts += int(start.sum())
        assert np.isfinite(batch.observation).all()
    assert absent > 0 and starts > 0
    env.close()


def test_a_game_of_pettingzoos_keeps_the_contract():
    pytest.importorskip("pettingzoo", reason="PettingZoo is not installed")
    pytest.importorskip("pygame", reason="its games need pygame")
    name = "pettingzoo/butterfly/knights_archers_zombies_v11"
    seen = check_environment(name, steps=60, num_envs=8, options={"spawn_delay": 5, "max_cycles": 25})
    assert seen.episodes > 0 and seen.truncated > 0
