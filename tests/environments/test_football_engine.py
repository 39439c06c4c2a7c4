"""Football on upstream's engine: the same games as envpool's, what only it has, and its frames."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from workbench import environments
from workbench.environments.football import family
from workbench.environments.football.planes import PLANES
from workbench.environments.football.screen import Screen
from workbench.environments.observations import decode
from workbench.errors import EnvironmentFailed, OutOfBounds
from workbench.networks.normalization import Observed
from workbench.testing import check_environment
from workbench.trajectory import Flags

pytest.importorskip("gfootball", reason="the extra football-engine is not installed")

CLOSE = "football/academy_empty_goal_close"
THREE = "football/academy_3_vs_1_with_keeper"


def made(name: str = CLOSE, *, num_envs: int = 1, seed: int = 0, show: Any = None, **options: Any) -> Any:
    return closing(environments.make(name, num_envs=num_envs, seed=seed, show=show, options=options))


@pytest.mark.parametrize(("name", "steps", "ends"), [
    (CLOSE, 250, 3), (THREE, 150, 2), ("football/1_vs_1_easy", 502, 2), ("football/11_vs_11_easy_stochastic", 100, 0)])
def test_both_engines_play_the_same_games_step_by_step(name: str, steps: int, ends: int) -> None:
    pytest.importorskip("envpool", reason="the extra football is not installed")
    rng = np.random.default_rng(5)
    with made(name, num_envs=2, engine="envpool") as one, made(name, num_envs=2, engine="gfootball") as two:
        assert one.spec == two.spec
        a, b = one.reset(), two.reset()
        ended = 0
        for _ in range(steps):
            assert (a.observation == b.observation).all()
            actions = rng.integers(19, size=2)
            a, b = one.step(actions), two.step(actions)
            assert (a.reward == b.reward).all() and (a.flags == b.flags).all()
            assert a.final_index.tolist() == b.final_index.tolist()
            if len(a.final_index):
                assert (a.final_observation == b.final_observation).all()
            ended += int((a.flags > 0).sum())
        assert ended >= ends, "the test must see games end"


def test_it_keeps_the_contract() -> None:
    seen = check_environment(CLOSE, steps=110, options={"engine": "gfootball"})
    assert seen.episodes > 0


def test_each_controlled_player_is_a_row_and_sees_itself_as_the_active_one() -> None:
    with made(THREE, num_envs=6, left_players=3) as games:
        assert games.spec.agents == 3
        step = games.reset()
        left, right, ball, active = decode(step.observation, (PLANES,)).transpose(1, 0, 2, 3)
        for planes in (left, right, ball):
            assert (planes[0] == planes[1]).all() and (planes[0] == planes[2]).all()
        places = [tuple(np.argwhere(plane)[0].tolist()) for plane in active]
        assert len(set(places[:3])) == 3, "three players, three places"
        assert all(left[row][place] == 255 for row, place in enumerate(places))
        rng = np.random.default_rng(0)
        while not (step.flags & Flags.TERMINATED).any():
            step = games.step(rng.integers(19, size=6))
        for game in (slice(0, 3), slice(3, 6)):
            assert len(set(step.flags[game].tolist())) == 1, "players of a game end together"


def test_the_rows_of_both_teams_have_opposite_rewards_and_mirrored_pitches() -> None:
    with made("football/1_vs_1_easy", num_envs=2, left_players=1, right_players=1) as games:
        step = games.reset()
        left, right = decode(step.observation, (PLANES,))
        assert abs(int(left[0].sum()) - int(right[0].sum())) == 0
        mirrored = left[1][::-1, ::-1]  # what the left row sees of the right team, from the other side
        own = np.argwhere(right[0])[0]
        assert np.abs(np.argwhere(mirrored)[0] - own).max() <= 1
        total = np.zeros(2)
        for _ in range(500):
            step = games.step(np.array([5, 13]))
            assert step.reward[0] == -step.reward[1]
            total += np.abs(step.reward)


def test_the_right_team_alone_can_be_controlled() -> None:
    with made(CLOSE, num_envs=2, left_players=0, right_players=1) as games:
        assert games.spec.agents == 1
        step = games.reset()
        assert decode(step.observation, (PLANES,))[0, 3].any()
        games.step(np.array([0, 5]))


def test_checkpoints_are_rewarded_and_the_score_is_told_apart() -> None:
    with made(CLOSE, num_envs=2, rewards="scoring,checkpoints") as games:
        assert games.spec.scored
        step = games.reset()
        assert step.score is not None and not step.score.any()
        returned, scored, ends = np.zeros(2), np.zeros(2), 0
        shoot = [5] * 8 + [12] + [0] * 60
        for action in shoot:
            step = games.step(np.full(2, action))
            returned += step.reward
            scored += step.score
            ends |= int(step.flags[0])
            if ends & Flags.TERMINATED:
                break
    assert scored[0] == 1.0 and returned[0] == pytest.approx(2.0), "a goal, and all ten checkpoints"


@pytest.mark.parametrize(("representation", "parts"), [
    ("simple115v2", {"": 115}), ("raw", {"ball": 3, "left_team": 8, "score": 2, "sticky_actions": 10})])
def test_other_observations_travel_as_parts(representation: str, parts: dict[str, int]) -> None:
    with made(THREE, num_envs=4, left_players=2, representation=representation) as games:
        spec = games.spec
        step = games.reset()
        found = {part.name: part.shape[0] for part in spec.parts}
        assert parts.items() <= found.items() and step.observation.shape == (4, 4 * sum(found.values()))
        seen = Observed(torch.nn.Identity(), spec, normalise=False).decoded(torch.from_numpy(step.observation)[None])
        ball = seen[..., 88:91] if isinstance(seen, torch.Tensor) else seen["ball"]
        assert ball[0, 0, :2].tolist() == pytest.approx([0.62, 0.0], abs=0.02)  # where the scenario puts it
        assert games.render(0) is None


def test_rows_that_are_no_whole_games_are_refused() -> None:
    with pytest.raises(OutOfBounds, match="multiple of groups_per_actor x agents"):
        environments.make(THREE, num_envs=4, seed=0, options={"left_players": 3})


@pytest.mark.parametrize("engine", ["envpool", "gfootball"])
def test_frames_come_from_a_game_that_is_played_again_in_lock_step(engine: str) -> None:
    if engine == "envpool":
        pytest.importorskip("envpool", reason="the extra football is not installed")
    rng = np.random.default_rng(1)
    with made(show="frames", engine=engine, render_width=160) as games:
        games.reset()
        try:
            first = games.render(0)
        except EnvironmentFailed as error:
            if "EGL" not in str(error):
                raise
            pytest.skip("this machine has no EGL to draw with")
        assert first.dtype == np.uint8 and first.shape == (90, 160, 3) and first.std() > 10
        ends = 0
        for count in range(900):
            step = games.step(rng.integers(19, size=1))
            if step.flags[0] & Flags.START:
                ending = games.ending(0)
                assert ending.frame.shape == first.shape
                assert (ending.frame != games.render(0)).any()
                ends += 1
                if ends == 2:
                    return
            elif count % 60 == 59:
                assert (games.render(0) != first).any()
    raise AssertionError("the test must see two games end")


def test_a_game_that_parts_from_the_one_that_is_drawn_is_an_error() -> None:
    with made(show="frames", render_width=160) as games:
        step = games.reset()
        screen: Screen = games._screens[0]
        screen.step(np.array([5]))  # an action that was not played
        for _ in range(10):
            screen.step(np.array([5]))
        with pytest.raises(EnvironmentFailed, match="parted from the one that is played"):
            screen.frame(step.observation)


def test_an_engine_that_is_asked_for_more_players_than_there_are_is_refused_before_it_starts() -> None:
    with pytest.raises(OutOfBounds, match="has 1 that can be controlled"):
        family.check("football/1_vs_1_easy", {"right_players": 2})
