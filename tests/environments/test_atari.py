"""Atari against a slow replay of the same actions in the bare emulator, with NumPy for the preprocessing."""

from collections.abc import Iterator

import ale_py
import numpy as np
import pytest
from ale_py import ALEInterface, roms

from workbench.environments import make
from workbench.environments.atari.vector import atari_options
from workbench.errors import InvalidInput, OutOfBounds, ShapeMismatch, UnknownName
from workbench.trajectory import Flags

QUIET = {"repeat_action_probability": 0.0}


def area(old: int, new: int) -> np.ndarray:
    """The matrix that shrinks an axis by area: every new pixel is the mean of what it covers."""
    edges = np.arange(new + 1) * old / new
    low, high = np.maximum(edges[:-1, None], np.arange(old)), np.minimum(edges[1:, None], np.arange(old) + 1)
    return np.maximum(high - low, 0) * new / old


def preprocessed(*raw: np.ndarray) -> np.ndarray:
    return area(210, 84) @ np.maximum.reduce(raw).astype(float) @ area(160, 84).T


class Emulator:
    """The bare emulator, one frame at a time."""

    def __init__(self, game: str, *, full: bool = False) -> None:
        ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", 0)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getLegalActionSet() if full else self.ale.getMinimalActionSet()

    def restart(self, *, fire: bool = False) -> np.ndarray:
        self.ale.reset_game()
        if fire:
            self.ale.act(1)
        return preprocessed(self.ale.getScreenGrayscale())

    def no_op(self) -> np.ndarray:
        self.ale.act(0)
        return preprocessed(self.ale.getScreenGrayscale())

    def step(self, action: int) -> tuple[np.ndarray, float]:
        reward, raw = 0.0, []
        for _ in range(4):
            reward += self.ale.act(self.actions[action])
            raw.append(self.ale.getScreenGrayscale())
        return preprocessed(*raw[-2:]), reward


@pytest.fixture
def made() -> Iterator:
    envs = []

    def build(name: str, num_envs: int = 1, seed: int = 0, threads: int = 1, **options):
        envs.append(make(name, num_envs=num_envs, seed=seed, threads=threads, options=options))
        return envs[-1]

    yield build
    for env in envs:
        env.close()


@pytest.mark.parametrize("game, name", [("pong", "ALE/Pong-v5"), ("breakout", "ALE/Breakout-v5")])
@pytest.mark.parametrize("full", [False, True])
def test_frames_rewards_and_actions_are_those_of_the_bare_emulator(made, game, name, full):
    env = made(name, noop_max=0, full_action_space=full, **QUIET)
    emulator = Emulator(game, full=full)
    assert env.spec.num_actions == len(emulator.actions)
    assert env.action_names == tuple(action.name for action in emulator.actions)
    assert np.abs(env.reset().observation[0, 0] - emulator.restart(fire=True)).max() <= 1
    rng = np.random.default_rng(0)
    for _ in range(250):
        action = rng.integers(env.spec.num_actions)
        batch = env.step(np.array([action]))
        frame, reward = emulator.step(action)
        if batch.flags[0] & Flags.TERMINATED:
            break
        assert np.abs(batch.observation[0, 0] - frame).max() <= 1  # rounding
        assert batch.reward[0] == reward


def test_a_time_limit_returns_the_true_final_frame_and_starts_a_new_game(made):
    env = made("ALE/Pong-v5", noop_max=0, max_frames_per_episode=203, **QUIET)
    emulator = Emulator("pong")
    env.reset()
    for _ in range(3):
        first = emulator.restart(fire=True)
        for step in range(1, 51):
            batch = env.step(np.array([step % 6]))
            frame, _ = emulator.step(step % 6)
            assert batch.flags[0] == (Flags.TRUNCATED | Flags.START if step == 50 else 0)
        assert batch.final_index.tolist() == [0]
        assert np.abs(batch.final_observation[0, 0] - frame).max() <= 1
        assert np.abs(batch.observation[0, 0] - first).max() <= 1


def test_a_cut_off_game_leaves_the_others_alone(made):
    """Breakout without a limit against Breakout with one: both agree until each game is cut off."""
    free, cut = (made("ALE/Breakout-v5", num_envs=4, seed=3, max_frames_per_episode=frames) for frames in (10**6, 600))
    free.reset()
    batch = cut.reset()
    rng = np.random.default_rng(0)
    together, age, cuts, ends = np.ones(4, bool), np.zeros(4, int), 0, 0
    for _ in range(220):
        actions = rng.integers(4, size=4)
        expected, batch = free.step(actions), cut.step(actions)
        age += 1
        late = (batch.flags & Flags.TRUNCATED) > 0
        assert (age[late] == 150).all() and (age <= 150).all()
        assert batch.final_index.tolist() == np.flatnonzero(late).tolist()
        for k, index in enumerate(batch.final_index):
            if together[index]:
                assert np.array_equal(batch.final_observation[k], expected.observation[index])
        together &= ~late
        assert np.array_equal(batch.observation[together], expected.observation[together])
        assert np.array_equal(batch.reward[together], expected.reward[together])
        over = (batch.flags & Flags.TERMINATED) > 0
        age[late | over] = 0
        cuts, ends = cuts + late.sum(), ends + over.sum()
    assert cuts and ends and not together.all()


@pytest.mark.parametrize("noop_max", [3, pytest.param(30, marks=pytest.mark.full)])
def test_no_ops_after_a_reset_are_drawn_from_0_to_noop_max(made, noop_max):
    emulator = Emulator("freeway")  # its cars move in every frame
    frames = [emulator.restart(), *(emulator.no_op() for _ in range(31))]
    env = made("ALE/Freeway-v5", num_envs=8, noop_max=noop_max, max_frames_per_episode=4, **QUIET)
    env.reset()
    seen = set()
    for _ in range(1 + noop_max):  # every step starts new games
        for observation in env.step(np.zeros(8, int)).observation:
            seen |= {noops for noops, frame in enumerate(frames) if np.abs(observation[0] - frame).max() <= 1}
    assert seen == set(range(noop_max + 1))


def test_no_ops_where_fire_is_pressed_are_as_many(made):
    emulator = Emulator("breakout")  # its ball flies from the first frame after FIRE on
    frames = [emulator.restart(fire=True), *(emulator.no_op() for _ in range(4))]
    env = made("ALE/Breakout-v5", num_envs=8, noop_max=3, max_frames_per_episode=4, **QUIET)
    env.reset()
    seen = set()
    for _ in range(10):  # every step starts new games
        for observation in env.step(np.zeros(8, int)).observation:
            seen |= {noops for noops, frame in enumerate(frames) if np.abs(observation[0] - frame).max() <= 1}
    assert seen == {0, 1, 2, 3}


def test_a_lost_life_is_flagged_without_a_reset_and_the_game_over_is_an_end(made):
    """Breakout has five lives: four LIFE_LOST, then TERMINATED."""
    lost = made("ALE/Breakout-v5", num_envs=4, life_loss=True)
    plain = made("ALE/Breakout-v5", num_envs=4)
    lost.reset(), plain.reset()
    rng = np.random.default_rng(0)
    lives, games = np.full(4, 5), 0
    for _ in range(400):
        actions = rng.integers(4, size=4)
        batch, expected = lost.step(actions), plain.step(actions)
        assert np.array_equal(batch.observation, expected.observation)
        assert np.array_equal(batch.flags & ~np.uint8(Flags.LIFE_LOST), expected.flags)
        over, fewer = (batch.flags & Flags.TERMINATED) > 0, (batch.flags & Flags.LIFE_LOST) > 0
        assert not (over & fewer).any()
        lives[fewer] -= 1
        assert (lives[over] == 1).all() and (lives >= 1).all()
        lives[over] = 5
        games += over.sum()
    assert games >= 2


def test_the_same_seed_gives_the_same_trajectory_with_one_and_two_threads(made):
    one, two = (made("ALE/Breakout-v5", num_envs=4, seed=7, threads=threads) for threads in (1, 2))
    assert np.array_equal(one.reset().observation, two.reset().observation)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(250):
        actions = rng.integers(4, size=4)
        a, b = one.step(actions), two.step(actions)
        assert np.array_equal(a.observation, b.observation)
        assert np.array_equal(a.reward, b.reward) and np.array_equal(a.flags, b.flags)
        ends += ((a.flags & Flags.TERMINATED) > 0).sum()
    assert ends


def test_sticky_actions_are_on_by_default_as_registered_and_can_be_switched_off():
    registered = {"game": "pong", "frameskip": 4, "repeat_action_probability": 0.25}
    assert atari_options(registered, {}).repeat_action_probability == 0.25
    assert atari_options(registered, QUIET).repeat_action_probability == 0.0


def test_the_no_frameskip_ids_get_the_standard_preprocessing_without_sticky_actions(made):
    assert made("PongNoFrameskip-v4").spec.frames_per_step == 4


def test_an_id_with_random_frame_skip_is_refused():
    with pytest.raises(InvalidInput, match="ALE/"):
        make("Pong-v4", num_envs=1, seed=0)


@pytest.mark.parametrize("options, error, words", [
    ({"life_los": True}, UnknownName, "life_loss"),
    ({"noop_max": -1}, OutOfBounds, "noop_max=-1"),
    ({"repeat_action_probability": 1.5}, OutOfBounds, "1.5"),
    ({"full_action_space": "yes"}, OutOfBounds, "full_action_space='yes'"),
    ({"max_frames_per_episode": 3}, OutOfBounds, "frames"),
])  # fmt: skip
def test_a_wrong_option_is_named(options, error, words):
    with pytest.raises(error, match=words):
        make("ALE/Pong-v5", num_envs=1, seed=0, options=options)


@pytest.mark.parametrize("actions", [np.array([0, 6]), np.array([-1, 0]), np.array([0]), np.array([0.0, 1.0])])
def test_a_wrong_action_is_refused_instead_of_hanging_the_emulators_threads(made, actions):
    env = made("ALE/Pong-v5", num_envs=2)
    env.reset()
    with pytest.raises(ShapeMismatch, match=r"ALE/Pong-v5"):
        env.step(actions)
    env.step(np.array([0, 5]))


def test_render_shows_the_last_grey_frame(made):
    env = made("ALE/Pong-v5", num_envs=2)
    assert env.render(0) is None
    batch = env.reset()
    shown = env.render(1)
    assert shown.shape == (84, 84, 3) and shown.dtype == np.uint8
    assert np.array_equal(shown[:, :, 0], batch.observation[1, 0])


def test_close_ends_the_threads_and_may_be_called_twice(made):
    env = made("ALE/Pong-v5", num_envs=2, threads=2)
    env.reset()
    env.close()
    env.close()
