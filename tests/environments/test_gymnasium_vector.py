"""The adapter of single Gymnasium environments: the same trajectories as without it, and every way to fail."""

import ctypes.util
import os
import subprocess
import sys
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text

from workbench.environments import make
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.contract import seeds_of
from workbench.errors import EnvironmentFailed, MissingPackage, ShapeMismatch, UnknownName
from workbench.testing import CountingEnv
from workbench.trajectory import ENDS, Flags


@pytest.mark.parametrize("name, steps", [("CartPole-v1", 300), ("MountainCar-v0", 450), ("Acrobot-v1", 60)])
def test_every_transition_is_that_of_the_plain_environment(name, steps):
    env = make(name, num_envs=3, seed=11)
    plain = [gymnasium.make(name) for _ in range(3)]
    batch = env.reset()
    firsts = [one.reset(seed=int(seed))[0] for one, seed in zip(plain, seeds_of(11, 3), strict=True)]
    assert np.array_equal(batch.observation, np.array(firsts, np.float32))
    rng = np.random.default_rng(0)
    for _ in range(steps):
        actions = rng.integers(env.spec.num_actions, size=3)
        batch = env.step(actions)
        finals = dict(zip(batch.final_index.tolist(), batch.final_observation if len(batch.final_index) else [],
                          strict=True))
        for index, one in enumerate(plain):
            observation, reward, terminated, truncated, _ = one.step(actions[index])
            flags = Flags.TERMINATED * terminated | Flags.TRUNCATED * (truncated and not terminated)
            if terminated or truncated:
                flags |= Flags.START
                if not terminated:
                    assert np.array_equal(finals.pop(index), observation.astype(np.float32))
                observation = one.reset()[0]
            assert batch.flags[index] == flags
            assert batch.reward[index] == np.float32(reward)
            assert np.array_equal(batch.observation[index], observation.astype(np.float32))
        assert not finals
    env.close()


def test_a_reset_forgets_how_the_last_episode_ended():
    env = make("testing/counting-v0", num_envs=1, seed=0, options={"episode_length": [1]}, show="endings")
    env.reset()
    env.step(np.zeros(1, int))
    assert env.ending(0) is not None
    env.reset()
    assert env.ending(0) is None
    env.close()


@pytest.mark.parametrize("image", [False, True])
def test_counting_shows_no_step_lost_repeated_or_shifted(image):
    lengths = [1, 4, 3]
    env = make("testing/counting-v0", num_envs=5, seed=0,
               options={"episode_length": lengths, "ends": "alternate", "image": image})
    batch = env.reset()
    lives = [CountingEnv.decode(observation).life for observation in batch.observation]
    assert len(set(lives)) == 5
    episode, step = 0, 0
    for number in range(40):
        batch = env.step(np.full(5, number % 3))
        step += 1
        reward, action, ends = CountingEnv.expected_reward(episode, step), number % 3, step == lengths[episode % 3]
        assert np.array_equal(batch.reward, np.full(5, reward, np.float32))
        if ends and episode % 2:
            finals = [CountingEnv.decode(observation) for observation in batch.final_observation]
            assert finals == [(life, episode, step, action) for life in lives]
        if ends:
            episode, step, action = episode + 1, 0, -1
        shown = [CountingEnv.decode(observation) for observation in batch.observation]
        assert shown == [(life, episode, step, action) for life in lives]


def single(**changes):
    """A factory of an environment that does what `changes` say, and otherwise behaves."""

    class Single(gymnasium.Env):
        observation_space = changes.get("observation_space", Box(-1, 1, (2,), np.float32))
        action_space = changes.get("action_space", Discrete(2))

        def reset(self, *, seed=None, options=None):
            return changes.get("reset", (np.zeros(2, np.float32), {}))

        def step(self, action):
            values = {"observation": np.zeros(2, np.float32), "reward": 0.0, "terminated": False,
                      "truncated": False, "info": {}}  # fmt: skip
            return changes.get("step", tuple({**values, **changes}[name] for name in values))

    return Single


BROKEN = {
    "step must return five": ({"step": (np.zeros(2, np.float32), 0.0, False, {})}, "must return .observation, reward"),
    "reset must return two": ({"reset": np.zeros(2, np.float32)}, r"in reset: it must return \(observation, info\)"),
    "shape in step": ({"observation": np.zeros(3, np.float32)}, r"shape \(3,\); the observation space has shape .2,"),
    "shape in reset": ({"reset": (np.zeros((1, 2)), {})}, r"in reset: observation of shape \(1, 2\)"),
    "dtype": ({"observation": np.array(["a", "b"])}, "observation of dtype <U1"),
    "complex": ({"observation": np.zeros(2, complex)}, "observation of dtype complex128"),
    "not an array": ({"observation": None}, "observation of shape"),
    "NaN": ({"observation": np.array([0, np.nan])}, "value nan, which is not finite"),
    "infinite in reset": ({"reset": (np.array([np.inf, 0]), {})}, "in reset: observation has the value inf"),
    "NaN at a truncation": ({"observation": np.array([0, np.nan]), "truncated": True}, "value nan"),
    "no reward": ({"reward": None}, "reward None is not a number"),
    "a word as reward": ({"reward": "1.0"}, "reward '1.0' is not a number"),
    "an array as reward": ({"reward": np.zeros(2)}, "is not a number"),
    "NaN as reward": ({"reward": float("nan")}, "reward nan is not a finite"),
    "too large a reward": ({"reward": 1e300}, "is not a finite float32"),
    "terminated": ({"terminated": 1}, "terminated must be True or False, not 1"),
    "truncated": ({"truncated": None}, "truncated must be True or False, not None"),
}


@pytest.mark.parametrize("changes, words", BROKEN.values(), ids=BROKEN)
def test_what_is_returned_wrongly_is_an_error_that_says_the_rule(changes, words):
    env = make("mine", num_envs=2, seed=0, factory=single(**changes))
    with pytest.raises(EnvironmentFailed, match=words) as caught:
        env.reset()
        env.step(np.zeros(2, int))
    assert "'mine' (index 0)" in str(caught.value)


@pytest.mark.parametrize("wrong, words", [
    (np.zeros(3, np.float32), r"of shape \(3,\)"), (np.array([0, np.inf]), "value inf"), (None, r"of shape \(\)")])
@pytest.mark.parametrize("where", ["reset", "step"])
def test_one_wrong_observation_among_right_ones_is_told_by_its_index_and_where_it_came_from(wrong, words, where):
    made = []

    class Third(single()):
        def __init__(self):
            self.ends = where == "reset"  # the wrong one is that of the next episode
            self.wrong = len(made) == 2
            made.append(self)

        def reset(self, *, seed=None, options=None):
            return wrong if self.wrong and seed is None else np.zeros(2), {}

        def step(self, action):
            return wrong if self.wrong and not self.ends else np.zeros(2), 0.0, self.ends, False, {}

    env = make("mine", num_envs=4, seed=0, factory=Third)
    env.reset()
    with pytest.raises(EnvironmentFailed, match=rf"\(index 2\) broke a rule in {where}: observation .*{words}"):
        env.step(np.zeros(4, int))


def test_observations_of_several_kinds_are_taken_where_each_may_be():
    kinds = iter((np.uint64, np.int8, bool))

    class Any(single(observation_space=Box(-5, 5, (2,), np.int64))):
        def __init__(self):
            self.kind = next(kinds)

        def reset(self, *, seed=None, options=None):
            return np.ones(2, self.kind), {}

    assert make("mine", num_envs=3, seed=0, factory=Any).reset().observation.tolist() == [[1, 1]] * 3


class OneScreen(gymnasium.Env):
    """Environments that draw into one and the same array, as those of one emulator or renderer do."""

    observation_space, action_space = Box(-1e9, 1e9, (2,), np.float32), Discrete(2)
    screen = np.zeros(2, np.float32)
    made = 0

    def __init__(self):
        self.number, self.steps = OneScreen.made, 0
        OneScreen.made += 1

    def drawn(self):
        self.screen[:] = self.number, self.steps
        return self.shown(self.screen)

    def shown(self, screen):
        return screen

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.drawn(), {}

    def step(self, action):
        self.steps += 1
        return self.drawn(), 0.0, False, self.steps == 3, {}


@pytest.mark.parametrize("shown", [
    lambda screen: screen, lambda screen: screen[:], lambda screen: np.frombuffer(screen.data, np.float32)],
    ids=["the array", "views", "foreign views"])
def test_environments_that_draw_into_one_array_are_seen_each_as_itself(shown, monkeypatch):
    monkeypatch.setattr(OneScreen, "made", 0)
    monkeypatch.setattr(OneScreen, "screen", np.zeros(2, np.float32))
    monkeypatch.setattr(OneScreen, "shown", staticmethod(shown))
    envs = GymnasiumVector("one-screen", OneScreen, num_envs=3, seed=0)
    shown = [envs.reset().observation.copy()]
    finals = []
    for _ in range(7):
        batch = envs.step(np.zeros(3, np.int64))
        shown.append(batch.observation.copy())
        if len(batch.final_index):
            finals.append(batch.final_observation.tolist())
    assert [rows[:, 0].tolist() for rows in shown] == [[0, 1, 2]] * 8
    assert [rows[:, 1].tolist() for rows in shown] == [[step % 3] * 3 for step in range(8)]
    assert finals == [[[number, 3] for number in range(3)]] * 2


def test_images_of_floats_are_refused_and_not_rounded_to_black():
    space = Box(0, 255, (8, 8), np.uint8)
    env = make("mine", num_envs=1, seed=0,
               factory=single(observation_space=space, reset=(np.full((8, 8), 0.5, np.float32), {})))
    with pytest.raises(EnvironmentFailed, match="dtype float32; the observation space has dtype uint8"):
        env.reset()


def test_numbers_of_any_kind_become_float32():
    env = make("mine", num_envs=1, seed=0, factory=single(
        observation_space=Box(-5, 5, (2,), np.int64), reset=([1, 2], {}), observation=[3, 4], reward=np.int64(2),
        terminated=np.False_))
    assert env.reset().observation.tolist() == [[1.0, 2.0]]
    batch = env.step(np.array([1]))
    assert batch.observation.dtype == batch.reward.dtype == np.float32
    assert batch.observation.tolist() == [[3.0, 4.0]] and batch.reward.tolist() == [2.0]


@pytest.mark.parametrize("changes, words", [
    ({"observation_space": Text(4)}, r"observation space Text.*FlattenObservation"),
    ({"action_space": Text(4)}, r"action space Text.*Supported are Discrete"),
])  # fmt: skip
def test_an_unsupported_space_is_named_with_what_is_supported(changes, words):
    with pytest.raises(ShapeMismatch, match=words):
        make("mine", num_envs=1, seed=0, factory=single(**changes))


def test_members_that_are_words_are_left_out_and_named():
    space = Dict({"at": Box(-1, 1, (2,)), "told": Dict({"by": Text(9)})})
    env = make("mine", num_envs=1, seed=0, factory=single(
        observation_space=space, reset=({"at": np.ones(2, np.float32), "told": {"by": "nobody"}}, {})))
    assert env.left_out == ("told/by",)
    assert env.reset().observation.tolist() == [[1, 1]]


@pytest.mark.parametrize("space, actions, expected", [
    (Discrete(3, start=-1), [2, 0], [1, -1]),
    (MultiDiscrete([[2, 3]], start=[[5, 0]]), [[1, 2], [0, 0]], [[[6, 2]], [[5, 0]]]),
    (MultiBinary((2, 1)), [[1, 0], [0, 1]], [[[1], [0]], [[0], [1]]]),
    (Box(np.array([-2, 0]), np.array([2, 10]), dtype=np.float64), [[0.5, -1.0], [-1.0, 0.0]], [[1, 0], [-2, 5]]),
])
def test_an_action_arrives_as_one_of_the_environments_own(space, actions, expected):
    got = []

    class Listening(single(action_space=space)):
        def step(self, action):
            assert self.action_space.contains(action)
            got.append(np.asarray(action).tolist())
            return super().step(action)

    env = make("mine", num_envs=2, seed=0, factory=Listening)
    env.reset()
    env.step(np.array(actions))
    assert got == expected


def test_numbers_in_doubles_become_float32_and_one_beyond_it_is_an_error():
    space = Box(-np.inf, np.inf, (2,), np.float64)
    env = make("mine", num_envs=1, seed=0, factory=single(observation_space=space, reset=(np.array([0.1, 1e-40]), {}),
                                                         observation=np.array([0.0, 1e39])))
    assert env.reset().observation.tolist() == [[float(np.float32(0.1)), float(np.float32(1e-40))]]
    with np.errstate(over="ignore"), pytest.raises(EnvironmentFailed, match="value inf, which is not finite"):
        env.step(np.array([0]))


def test_every_transition_of_mujoco_is_that_of_the_plain_environment():
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    env, plain = make("HalfCheetah-v5", num_envs=1, seed=4), gymnasium.make("HalfCheetah-v5")
    batch, (observation, _) = env.reset(), plain.reset(seed=int(seeds_of(4, 1)[0]))
    assert env.spec.observation_dtype == "float32" and observation.dtype == np.float64
    rng = np.random.default_rng(0)
    for _ in range(30):
        assert np.array_equal(batch.observation[0], observation.astype(np.float32))
        action = rng.uniform(-1, 1, (1, 6)).astype(np.float32)
        batch = env.step(action)
        observation, reward, *_ = plain.step(action[0])
        assert batch.reward[0] == np.float32(reward)


DRAW = """
import sys
from workbench.environments import make
env = make("Reacher-v5", num_envs=1, seed=0, show=sys.argv[1] or None, options={"width": 32, "height": 24})
env.reset()
frame = env.render(0)
import os
print(None if frame is None else (frame.shape, str(frame.dtype), bool(frame.std() > 1)), os.environ.get("MUJOCO_GL"))
"""


@pytest.mark.parametrize("show, chosen, printed", [
    ("frames", None, "((24, 32, 3), 'uint8', True) egl"), ("", None, "None None"),
    ("", "disabled", "None disabled"), ("frames", "egl", "((24, 32, 3), 'uint8', True) egl")])
def test_mujoco_draws_without_a_display_and_nothing_is_chosen_for_one_that_does_not_draw(
        show, chosen, printed, tmp_path):
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    if show and ctypes.util.find_library("EGL") is None:
        pytest.skip("no EGL library (libegl1)")
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")}
    if chosen:
        environment["MUJOCO_GL"] = chosen
    ran = subprocess.run([sys.executable, "-c", DRAW, show], env={**environment, "PYTHONPATH": os.getcwd()},
                         capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert ran.stdout.strip().splitlines()[-1:] == [printed], ran.stderr


@pytest.mark.parametrize("shape, expected", [
    ((10, 12, 3), (3, 10, 12)), ((3, 10, 12), (3, 10, 12)), ((10, 12), (1, 10, 12)), ((1, 36, 36), (1, 36, 36))
])  # fmt: skip
def test_the_channels_of_an_image_come_first(shape, expected):
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    env = make("mine", num_envs=1, seed=0, factory=single(observation_space=Box(0, 255, shape, np.uint8),
                                                         reset=(image, {})))
    first = env.reset().observation[0]
    assert first.shape == expected and first.dtype == np.uint8
    assert np.array_equal(first, np.moveaxis(image, -1, 0) if shape[-1] == 3 else image.reshape(expected))
    assert env.render(0).shape == (*expected[1:], 3)


@pytest.mark.parametrize("where", ["constructor", "reset", "step"])
def test_an_error_in_the_environment_carries_one_line_and_the_traceback(where):
    def run() -> None:
        env = make("testing/failing-v0", num_envs=3, seed=0, options={"where": where, "at": 2, "message": "ran dry"})
        env.reset()
        for _ in range(20):
            env.step(np.zeros(3, int))

    with pytest.raises(EnvironmentFailed) as caught:
        run()
    first, _, rest = str(caught.value).partition("\n")
    assert first == f"environment 'testing/failing-v0' (index 0) raised RuntimeError in {where}: ran dry"
    assert "Traceback (most recent call last):" in rest
    assert "raise RuntimeError(" in rest and rest.endswith("RuntimeError: ran dry")


@pytest.mark.parametrize("where", ["constructor", "reset", "step"])
def test_an_environment_that_would_leave_the_process_is_named(where):
    class Leaves(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            self._leave("constructor")

        def _leave(self, here: str) -> None:
            if here == where:
                sys.exit(0)  # as a window of pygame does when it is closed

        def reset(self, **more):
            self._leave("reset")
            return super().reset(**more)

        def step(self, action):
            self._leave("step")
            return super().step(action)

    with pytest.raises(EnvironmentFailed, match=rf"'Leaves' \(index 0\) raised SystemExit in {where}: SystemExit"):
        GymnasiumVector("Leaves", Leaves, num_envs=2, seed=0).reset_each(np.zeros(2, int))
        env = GymnasiumVector("Leaves", Leaves, num_envs=2, seed=0)
        env.reset()
        env.step(np.zeros(2, int))


def test_the_environments_made_before_a_failing_constructor_are_closed():
    closed = []

    class Third(CountingEnv):
        made = 0

        def __init__(self):
            super().__init__()
            type(self).made += 1
            if type(self).made == 3:
                raise OSError("no licence for a third")

        def close(self):
            closed.append(self)

    with pytest.raises(EnvironmentFailed, match=r"\(index 2\) raised OSError in constructor: no licence"):
        make("mine", num_envs=4, seed=0, factory=Third)
    assert len(closed) == 2


def test_something_that_is_no_environment_is_named():
    with pytest.raises(EnvironmentFailed, match="not a gymnasium.Env"):
        make("mine", num_envs=1, seed=0, factory=lambda: 3)


def test_an_option_reaches_the_environment_and_a_wrong_one_is_named():
    env = make("CartPole-v1", num_envs=1, seed=0, options={"max_episode_steps": 2})
    env.reset()
    assert [int(env.step(np.array([0])).flags[0]) for _ in range(2)] == [0, Flags.TRUNCATED | Flags.START]
    with pytest.raises(UnknownName, match="option of CartPole-v1 'max_episode_step'.*'max_episode_steps'"):
        make("CartPole-v1", num_envs=1, seed=0, options={"max_episode_step": 2})
    with pytest.raises(UnknownName, match="'episode_length'"):
        make("mine", num_envs=1, seed=0, options={"episode_lenght": 2}, factory=CountingEnv)


def test_drawing_without_its_package_names_the_command():
    class Undrawable(CountingEnv):
        render_mode = "rgb_array"

        def render(self):
            raise gymnasium.error.DependencyNotInstalled('run `pip install "gymnasium[classic-control]"`')

    env = make("mine", num_envs=1, seed=0, factory=Undrawable)
    env.reset()
    with pytest.raises(MissingPackage, match="pip install"):
        env.render(0)


def test_vectors_have_no_picture():
    env = make("CartPole-v1", num_envs=1, seed=0)
    env.reset()
    assert env.render(0) is None


@pytest.mark.parametrize("shape", [(8, 8), (2,)])
def test_the_picture_of_an_image_stands_in_for_a_drawing_of_nothing(shape):
    class Blank(single(observation_space=Box(0, 255, shape, np.uint8), reset=(np.full(shape, 7, np.uint8), {}))):
        render_mode = "rgb_array"

        def render(self):
            return None

    env = make("mine", num_envs=1, seed=0, factory=Blank)
    env.reset()
    frame = env.render(0)
    assert frame is None if len(shape) == 1 else np.array_equal(frame, np.full((8, 8, 3), 7))


class Scored(CountingEnv):
    """Succeeds in its even episodes; only the end of an episode counts."""

    metadata = {"score": "is_success"}
    episodes = 0

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        self.episodes += terminated or truncated
        return observation, reward, terminated, truncated, self.told(terminated or truncated)

    def told(self, ended):
        return {"is_success": not ended or self.episodes % 2 == 0}


def scores_of_three_episodes(made: Callable[[], gymnasium.Env], **options) -> list[float]:
    env = make("mine", num_envs=1, seed=0, factory=made, **options)
    assert env.reset().score.tolist() == [0.0] and env.spec.scored
    scores: list[list[float]] = [[]]
    while len(scores) < 4:
        step = env.step(np.zeros(1, int))
        scores[-1].append(float(step.score[0]))
        if step.flags[0] & ENDS:
            scores.append([])
    env.close()
    assert all(not any(one[:-1]) for one in scores[:3])
    return [one[-1] for one in scores[:3]]


@pytest.mark.parametrize("processes", [1, 2])
def test_metadata_names_the_member_of_info_that_is_an_episodes_score(processes):
    assert scores_of_three_episodes(lambda: Scored(episode_length=4), processes=processes) == [0.0, 1.0, 0.0]


def test_a_wrapper_gives_a_score_to_an_environment_that_has_none():
    class Halved(gymnasium.Wrapper):
        metadata = {"score": "half"}

        def step(self, action):
            observation, reward, terminated, truncated, info = self.env.step(action)
            return observation, reward, terminated, truncated, {**info, "half": np.float64(0.5)}

    assert scores_of_three_episodes(lambda: Halved(CountingEnv(episode_length=4))) == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("told", "said"), [
    ({}, "metadata\\['score'\\] names 'is_success', and the info at an episode's end lacks it: it has nothing"),
    (None, "it is no dict"), ({"is_success": "yes"}, "score 'yes' is not a number"),
    ({"is_success": float("nan")}, "score nan is not a finite float32"),
])
def test_a_score_that_is_missing_or_no_number_is_told(told, said):
    class Wrong(Scored):
        def told(self, ended):
            return told

    with pytest.raises(EnvironmentFailed, match=said):
        scores_of_three_episodes(lambda: Wrong(episode_length=4))
