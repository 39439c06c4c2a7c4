"""Football on the engine that is a wheel: the contract over envpool's own resets, planes as bits, options, the plan."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from workbench import environments
from workbench.environments.contract import WithEndings, seeds_of
from workbench.environments.football import family
from workbench.environments.football.engine import EngineGames, Setup
from workbench.environments.football.planes import PLANES, packed, picture
from workbench.environments.football.screen import Screen
from workbench.environments.observations import decode
from workbench.errors import EnvironmentFailed, MissingPackage, OutOfBounds, ShapeMismatch, UnknownName
from workbench.networks.normalization import Observed
from workbench.testing import check_environment
from workbench.trajectory import Flags, StepBatch

envpool = pytest.importorskip("envpool", reason="the extra football is not installed")

CLOSE = "football/academy_empty_goal_close"


def random_planes(seed: int, rows: int = 3) -> Any:
    return np.random.default_rng(seed).integers(2, size=(rows, 72, 96, 4)).astype(np.uint8) * np.uint8(255)


def played(actions: Any, *, name: str = CLOSE, seed: int = 3, **making: Any) -> list[StepBatch]:
    """Steps [T+1] of `actions` [T, N]."""
    with closing(environments.make(name, num_envs=actions.shape[1], seed=seed, **making)) as games:
        return [games.reset(), *(games.step(row) for row in actions)]


class Bare:
    """envpool as it is: games that ended are stepped once more, alone, which is how it resets them."""

    def __init__(self, name: str, num_envs: int, seed: int) -> None:
        self._pool = envpool.make_gymnasium(
            name.replace("football/", "gfootball/") + "-v1", num_envs=num_envs, num_threads=1,
            env_seed=seeds_of(seed, num_envs).tolist())
        self.first = self._pool.reset()[0]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Last observations of the steps, observations after resets, reward, terminated, truncated."""
        last, reward, terminated, truncated, _ = self._pool.step(actions.astype(np.int32))
        over, after = np.flatnonzero(terminated | truncated).astype(np.int32), last.copy()
        if len(over):
            after[over] = self._pool.step(np.full(len(over), 5, np.int32), over)[0]
        return last, after, reward, terminated, truncated


def test_fonts_are_ready_before_threads_make_the_first_games() -> None:
    code = (
        "import ctypes, envpool, numpy\n"
        "from envpool.gfootball import gfootball_envpool\n"
        "from workbench.environments.football.pool import EnvpoolGames\n"
        "library = ctypes.CDLL(gfootball_envpool.__file__)\n"
        "def made(*_, **__):\n"
        "    raise SystemExit(f'initialised {library.TTF_WasInit()} times')\n"
        "print(library.TTF_WasInit())\n"
        "envpool.make_gymnasium = made\n"
        "EnvpoolGames('academy_empty_goal_close', num_games=2, threads=1).begin(numpy.arange(2))\n")
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (process.stdout, process.stderr) == ("0\n", "initialised 1 times\n")


def test_every_scenario_has_a_name_that_envpool_knows() -> None:
    known = {task.removeprefix("gfootball/").removesuffix("-v1") for task in envpool.list_all_envs()
             if task.startswith("gfootball/")}
    assert known == set(family.SCENARIOS)
    assert family.names() == tuple(f"football/{scenario}" for scenario in family.SCENARIOS)


@pytest.mark.full
def test_it_keeps_the_contract() -> None:
    seen = check_environment(CLOSE, steps=110)
    assert seen.episodes > 0


@pytest.mark.full
def test_games_that_lose_their_endings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WithEndings, "ending", lambda self, index: None)
    with pytest.raises(EnvironmentFailed, match="the rule 'ending'"):
        check_environment(CLOSE, steps=110)


@pytest.mark.full
@pytest.mark.parametrize(("name", "num_envs", "steps", "kind"), [
    (CLOSE, 3, 200, Flags.TERMINATED), ("football/1_vs_1_easy", 1, 503, Flags.TRUNCATED)])
def test_a_game_that_ended_begins_anew_in_the_same_step_and_one_cut_off_gives_its_true_last_observation(
    name: str, num_envs: int, steps: int, kind: Flags
) -> None:
    actions = np.random.default_rng(1).integers(19, size=(steps, num_envs))
    batches, bare = played(actions, name=name), Bare(name, num_envs, 3)
    ends = Flags(0)
    assert (batches[0].observation == packed(bare.first)).all() and (batches[0].flags == Flags.START).all()
    for batch, row in zip(batches[1:], actions, strict=True):
        last, after, reward, terminated, truncated = bare.step(row)
        assert (batch.observation == packed(after)).all() and (batch.reward == reward).all()
        expected = (terminated * Flags.TERMINATED) | (truncated * Flags.TRUNCATED)
        expected[expected > 0] |= Flags.START
        assert (batch.flags == expected).all()
        assert batch.final_index.tolist() == np.flatnonzero(truncated).tolist()
        if truncated.any():
            assert batch.final_observation is not None
            assert (batch.final_observation == packed(last[truncated])).all()
            assert (batch.final_observation != batch.observation[truncated]).any()
        ends |= Flags(int(np.bitwise_or.reduce(expected)))
    assert ends == kind | Flags.START, "the test must see such an end"


@pytest.mark.full
def test_the_number_of_threads_changes_nothing_and_another_seed_does() -> None:
    actions = np.random.default_rng(0).integers(19, size=(150, 4))
    one, two, other = played(actions), played(actions, threads=2), played(actions, seed=4)
    for a, b in zip(one, two, strict=True):
        assert (a.observation == b.observation).all() and (a.reward == b.reward).all() and (a.flags == b.flags).all()
    assert any((a.observation != b.observation).any() for a, b in zip(one, other, strict=True))
    assert any((step.flags & Flags.TERMINATED).any() for step in one[1:])


def test_planes_come_out_of_their_bits_as_a_network_sees_them() -> None:
    planes = random_planes(0)
    bits = packed(planes)
    assert bits.shape == (3, 72 * 96 * 4 // 8) and bits.dtype == np.uint8
    channels_first = planes.transpose(0, 3, 1, 2)
    assert (bits == np.packbits(channels_first.reshape(3, -1) > 0, axis=-1)).all()
    assert (decode(bits, (PLANES,)) == channels_first).all()
    with closing(environments.make(CLOSE, num_envs=1, seed=0)) as games:
        spec = games.spec
    assert spec.observation_shape == (3456,) and spec.seen[0].shape == (4, 72, 96) and spec.num_actions == 19
    seen = Observed(torch.nn.Identity(), spec, normalise=False).decoded(torch.from_numpy(bits)[None])
    assert isinstance(seen, torch.Tensor)
    assert (seen[0].numpy() == channels_first).all()


def test_actions_have_names_and_wrong_ones_are_refused() -> None:
    with closing(environments.make(CLOSE, num_envs=2, seed=0)) as games:
        assert games.action_names[5] == "right" and games.action_names[12] == "shot" and len(games.action_names) == 19
        assert games.fps == 10.0 and games.spec.frames_per_step == 1
        games.reset()
        for wrong in ([0, 19], [0], [0.0, 1.0]):
            with pytest.raises(ShapeMismatch):
                games.step(np.array(wrong))


def test_the_plan_shows_teams_ball_and_active_player_where_they_are() -> None:
    planes = np.zeros((1, 72, 96, 4), np.uint8)
    places = {0: (10, 20), 1: (30, 40), 2: (50, 60), 3: (10, 20)}
    for plane, (row, column) in places.items():
        planes[0, row, column, plane] = 255
    drawn = picture(packed(planes)[0])
    assert drawn.dtype == np.uint8 and drawn.shape[2] == 3 and drawn.shape[0] >= 288 and drawn.shape[1] >= 384

    def colour(row: int, column: int, aside: int = 0) -> tuple[int, ...]:
        cell = (drawn.shape[1] - 24) // 96
        return tuple(drawn[12 + row * cell + cell // 2, 12 + column * cell + cell // 2 + aside].tolist())

    assert colour(10, 20) == (86, 180, 233) and colour(30, 40) == (230, 159, 0) and colour(50, 60) == (255, 255, 255)
    assert colour(10, 20, aside=9) == (240, 228, 66)


def test_render_gives_the_plan_and_an_ending_is_kept_before_the_next_game() -> None:
    rng = np.random.default_rng(2)
    with closing(environments.make(CLOSE, num_envs=3, seed=3, show="endings")) as games:
        assert games.render(0) is None
        games.reset()
        drawn = games.render(0)
        while True:
            step = games.step(rng.integers(19, size=3))
            ended = np.flatnonzero(step.flags & Flags.TERMINATED)
            if len(ended):
                break
            assert games.ending(0) is None
        ending = games.ending(int(ended[0]))
        assert ending is not None and ending.frame is not None and drawn is not None
        assert (ending.observation != step.observation[ended[0]]).any()
        assert (ending.frame == picture(ending.observation)).all()
        assert (games.render(0) != drawn).any()


@pytest.mark.skipif(importlib.util.find_spec("gfootball") is not None, reason="gfootball is installed: it draws")
def test_frames_of_the_game_itself_and_more_than_envpool_has_say_that_they_need_gfootball() -> None:
    with pytest.raises(MissingPackage, match=r"frames of the game itself needs gfootball.*gfootball==2"):
        environments.make(CLOSE, num_envs=1, seed=0, show="frames")
    with pytest.raises(MissingPackage, match=r"right_players=1 needs gfootball.*gfootball==2"):
        family.check(CLOSE, {"right_players": 1})


@pytest.mark.parametrize(("options", "message"), [
    ({"engine": "envpool", "rewards": "scoring,checkpoints"}, "does not have rewards='scoring,checkpoints'"),
    ({"left_players": 3}, "has 2 that can be controlled"),
    ({"left_players": 0}, "at least one player must be controlled"),
    ({"representation": "pixels"}, "not one of 'extracted', 'simple115v2', 'raw'"),
    ({"render_width": 1000}, "not a multiple of 16"),
])
def test_options_that_cannot_be_are_refused_in_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OutOfBounds, match=message):
        family.check(CLOSE, options)


def test_a_frame_that_could_not_be_drawn_is_not_replaced_by_an_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(Setup("academy_empty_goal_close"), CLOSE)
    seen, picture = np.zeros((1, 4), np.uint8), np.zeros((2, 2, 3), np.uint8)
    answers = iter([("", picture, seen), ("no luck", None, None), ("", picture + 1, seen)])
    monkeypatch.setattr(screen, "_start", lambda: None)
    monkeypatch.setattr(screen, "_request", lambda calls: next(answers))
    screen.begin(0, 2)
    assert not screen.frame(seen).any()
    screen.step(np.zeros(1, np.int64))
    with pytest.raises(EnvironmentFailed, match="no luck"):
        screen.frame(seen)
    assert screen.frame(seen).all()


def test_only_envpools_games_ask_for_a_new_process_when_they_are_seeded_anew() -> None:
    with closing(environments.make(CLOSE, num_envs=1, seed=0)) as games:
        assert games.keeps_memory_at_reset  # type: ignore[attr-defined]
    assert not EngineGames.keeps_memory


def test_misspelt_names_come_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="academy_empty_goal_close"):
        family.check("football/academy_empty_goal_clos", {})
    with pytest.raises(UnknownName, match="rewards"):
        family.check(CLOSE, {"reward": "scoring"})
