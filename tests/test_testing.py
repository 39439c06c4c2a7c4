"""The environments with known answers, and the check that finds broken ones."""

import dataclasses
from typing import ClassVar

import gymnasium
import numpy as np
import pytest

from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.environments import make, register_environment, registration
from workbench.environments.atari import vector as atari
from workbench.environments.contract import Ending
from workbench.errors import EnvironmentFailed, InvalidInput
from workbench.testing import CatchEnv, CountingEnv, FailingEnv, HiddenVelocityCartPoleEnv, RecallEnv, check_environment
from workbench.trajectory import Flags, StepBatch


def played(env, policy, episodes: int) -> list[float]:
    """Returns of a policy that maps (observation, memory) to (action, memory)."""
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        over, total, memory = False, 0.0, None
        while not over:
            action, memory = policy(observation, memory)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + reward, terminated or truncated
        returns.append(total)
    return returns


def follow_the_ball(observation, _):
    board = observation[0, ::6, ::6] > 0
    ball = int(np.argmax(board[:-1].any(axis=0)))
    paddle = int(np.argmax(board[-1]))
    return 1 + int(np.sign(ball - paddle)), None


def test_the_best_return_of_catch_is_1_and_is_reached_from_every_column():
    assert set(played(CatchEnv(), follow_the_ball, 60)) == {CatchEnv.best_return}


def test_a_random_policy_catches_few_balls():
    rng = np.random.default_rng(0)
    assert -0.8 < np.mean(played(CatchEnv(), lambda *_: (rng.integers(3), None), 400)) < -0.4


def test_catch_out_of_reach_is_refused():
    with pytest.raises(InvalidInput, match="out of reach"):
        CatchEnv(rows=3, columns=9)


def test_recall_gives_1_to_who_remembers_and_0_to_who_does_not():
    def remember(observation, cue):
        cue = cue or observation[0]
        return int(cue > 0), cue

    assert set(played(RecallEnv(length=5), remember, 40)) == {RecallEnv.best_return}
    assert abs(np.mean(played(RecallEnv(length=5), lambda *_: (1, None), 200))) < 0.2


def test_cartpole_without_velocities_is_balanced_by_who_compares_observations_and_by_nobody_else():
    def towards_the_fall(observation, last):
        velocity = (observation - last) / 0.02 if last is not None else np.zeros(2)
        return int(observation[1] + 0.3 * velocity[1] > 0), observation

    best = HiddenVelocityCartPoleEnv.best_return
    assert set(played(HiddenVelocityCartPoleEnv(), towards_the_fall, 10)) == {best}
    assert max(played(HiddenVelocityCartPoleEnv(), lambda now, _: (towards_the_fall(now, None)[0], None), 20)) < 100


def test_cartpole_without_velocities_is_cartpole_otherwise():
    ours, theirs = HiddenVelocityCartPoleEnv(), gymnasium.make("CartPole-v1")
    assert check_environment(HiddenVelocityCartPoleEnv).episodes > 0
    assert np.array_equal(ours.observation_space.high, theirs.observation_space.high[[0, 2]])
    observation, whole = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    over = False
    while not over:
        assert observation.dtype == np.float32 and np.array_equal(observation, whole[[0, 2]])
        (observation, *rest), (whole, *expected) = ours.step(1), theirs.step(1)
        assert rest == expected
        over = rest[1]


@pytest.mark.parametrize("image", [False, True])
def test_a_count_is_read_back_from_its_observation(image):
    env = CountingEnv(episode_length=[2, 1000], image=image, num_actions=300)
    assert CountingEnv.decode(env.reset()[0]) == (env.life, 0, 0, -1)
    assert [env.step(7)[2], env.step(7)[2]] == [False, True]
    env.reset()
    for _ in range(300):
        observation, reward, *_ = env.step(299)
    assert CountingEnv.decode(observation) == (env.life, 1, 300, 299)
    assert reward == CountingEnv.expected_reward(1, 300)


def test_counting_lives_differ_between_instances_and_rewards_between_neighbours():
    assert len({CountingEnv().life for _ in range(100)}) == 100
    rewards = [CountingEnv.expected_reward(0, step) for step in range(1, 98)]
    assert len(set(rewards)) == 97 and min(rewards) > 0 and max(rewards) < 1


def test_counting_refuses_an_end_that_it_does_not_know():
    with pytest.raises(InvalidInput, match="'sometimes'"):
        CountingEnv(ends="sometimes")


@pytest.mark.parametrize("where, calls", [("reset", 1), ("step", 2)])
def test_failing_fails_in_the_call_it_was_told(where, calls):
    env = FailingEnv(where=where, at=2)
    env.reset()
    steps = 0
    with pytest.raises(RuntimeError, match="on purpose"):
        while True:
            *_, over, _, _ = env.step(0)
            steps += 1
            if over:
                env.reset()
    assert steps == {"reset": 7, "step": 1}[where]
    with pytest.raises(RuntimeError, match="on purpose"):
        FailingEnv(where="constructor")


# Vector environments that keep every rule but one.


class Broken:
    """Counting environments whose batches are changed by `spoil(batch, is_reset)` on their way out."""

    def __init__(self, spoil, num_envs, seed, **options):
        self._env = make("testing/counting-v0", num_envs=num_envs, seed=seed,
                         options={"life": 1, "ends": "alternate", **options}, show="endings")
        self.spec, self.num_envs, self._spoil = self._env.spec, num_envs, spoil
        self.fps, self.action_names = self._env.fps, self._env.action_names

    def reset(self, *, seed=None):
        return self._spoil(self._env.reset(seed=seed), True)

    def step(self, actions):
        return self._spoil(self._env.step(actions), False)

    def render(self, index):
        return None

    def ending(self, index):
        return self._env.ending(index)

    def close(self):
        self._env.close()


def changed(**fields):
    """A spoiler that computes fields of the step's batch anew."""
    def spoil(batch, is_reset):
        return batch if is_reset else StepBatch(**{**vars(batch), **{k: f(batch) for k, f in fields.items()}})
    return spoil


def at_reset(**fields):
    def spoil(batch, is_reset):
        return StepBatch(**{**vars(batch), **{k: f(batch) for k, f in fields.items()}}) if is_reset else batch
    return spoil


def first_instead_of_final(batch):
    return batch.observation[batch.final_index]


BROKEN = {
    "observation of step.*shape": changed(observation=lambda batch: batch.observation[:, :2]),
    "observation of reset.*dtype float32, has float64": at_reset(observation=lambda b: b.observation.astype(float)),
    "reward of step.*dtype float32": changed(reward=lambda batch: batch.reward.astype(float)),
    "reward of step.*finite": changed(reward=lambda batch: batch.reward * np.nan),
    "reward after reset": at_reset(reward=lambda batch: batch.reward + 1),
    "START after reset": at_reset(flags=lambda batch: batch.flags * 0),
    "reset after the end": changed(flags=lambda batch: batch.flags & ~np.uint8(Flags.START)),
    "'START'.*without": changed(flags=lambda batch: batch.flags & np.uint8(Flags.START)),
    "LIFE_LOST": changed(flags=lambda batch: batch.flags | (batch.flags > 0) * np.uint8(Flags.LIFE_LOST)),
    "'flags'": changed(flags=lambda batch: batch.flags | np.uint8(32)),
    "'ABSENT'.*set alone": changed(flags=lambda b: b.flags | (b.flags > 0) * np.uint8(Flags.ABSENT)),
    "'ABSENT'.*no reward": changed(flags=lambda batch: np.where(batch.flags == 0, np.uint8(Flags.ABSENT), batch.flags)),
    "score of step.*where the spec says": changed(score=lambda batch: batch.reward),
    "final observation.*final_index": changed(final_index=lambda batch: batch.final_index[:0]),
    "final observation.*shape": changed(final_observation=lambda batch: batch.observation[:, :1]),
    "final observation.*equals the first of the next": changed(final_observation=first_instead_of_final),
}


@pytest.mark.parametrize("rule, spoil", BROKEN.items(), ids=BROKEN)
def test_a_broken_rule_about_batches_is_said(rule, spoil):
    with pytest.raises(EnvironmentFailed, match=f"breaks the rule .*{rule}"):
        check_environment(lambda num_envs, seed: Broken(spoil, num_envs, seed))


def test_the_vectors_that_are_spoilt_keep_the_contract_otherwise():
    assert check_environment(lambda num_envs, seed: Broken(lambda b, _: b, num_envs, seed)).truncated > 0


def test_a_check_says_what_it_could_not_see():
    seen = check_environment(lambda: CountingEnv(episode_length=10_000, life=1), steps=20)
    assert seen.episodes == 0 and "no episode ended in 60 steps, so nothing about ends was tested" in seen.notes[0]
    assert repr(seen).splitlines()[0] == "Checked(steps=60, episodes=0, truncated=0, lives_lost=0, absent=0, frames=0)"
    assert not check_environment(lambda: CountingEnv(life=1), steps=20).notes


def test_a_trajectory_that_the_seed_does_not_repeat_is_said():
    with pytest.raises(EnvironmentFailed, match="same seed, same trajectory.*second instance"):
        check_environment(CountingEnv)  # every instance has a life of its own

    rng = np.random.default_rng()
    drifting = changed(reward=lambda batch: rng.random(len(batch.reward)).astype(np.float32))
    with pytest.raises(EnvironmentFailed, match="same seed, same trajectory.*the reward differs at step 1"):
        check_environment(lambda num_envs, seed: Broken(drifting, num_envs, seed))


def test_what_to_do_about_a_seed_that_is_lost_is_said():
    class Deaf(CountingEnv):
        def reset(self):
            return super().reset()

    with pytest.raises(EnvironmentFailed, match=r"'seed'. Gymnasium's reset takes them: def reset\(self, \*,"):
        check_environment(Deaf)
    with pytest.raises(EnvironmentFailed, match=r"trajectory \(super\(\).reset\(seed=seed\) seeds self.np_random"):
        check_environment(Unseeded)
    with pytest.raises(EnvironmentFailed, match=r"trajectory \(NormalizeObservation keeps running means from"):
        check_environment("CartPole-v1", wrappers=[gymnasium.wrappers.NormalizeObservation])


class Unseeded(gymnasium.Env):
    """Draws its rewards from what no seed reaches."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,), np.float32), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(np.random.default_rng().random()), False, False, {}


def test_environments_that_share_state_are_said():
    class Shared(CountingEnv):
        total = 0

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                Shared.total = 0
            return super().reset(seed=seed, options=options)

        def step(self, action):
            Shared.total += int(action)
            observation, _, *rest = super().step(action)
            return observation, float(Shared.total), *rest

    with pytest.raises(EnvironmentFailed, match="independence.*must not depend on the actions of the others"):
        check_environment(lambda: Shared(life=1))


def test_an_array_that_is_used_again_is_said():
    buffer = np.zeros((3, 4), np.float32)

    def reuse(batch):
        buffer[...] = batch.observation
        return buffer

    with pytest.raises(EnvironmentFailed, match="arrays belong to the caller"):
        check_environment(lambda num_envs, seed: Broken(changed(observation=reuse), num_envs, seed))


def respecified(**fields):
    """A vector whose spec has other fields than its batches."""
    class Respecified(Broken):
        def __init__(self, num_envs, seed):
            super().__init__(lambda batch, _: batch, num_envs, seed)
            self.spec = dataclasses.replace(self.spec, **fields)
    return Respecified


@pytest.mark.parametrize("fields, rule", [
    ({"num_actions": 4}, "'actions'.*num_actions must be 3"),
    ({"actions": ActionSpec("multi_discrete", (3, 4))}, "'actions'.*num_actions must be 7"),
    ({"parts": (Part("a", (4,), "float32"), Part("b", (9,), "bits"))}, "'parts'.*18 bytes: observations must be uint8"),
    ({"parts": (Part("a", (2,), "float32"),) * 2, "observation_shape": (16,), "observation_dtype": "uint8"},
     "'parts'.*the same name"),
    ({"agents": 2}, "'agents'.*3 rows are no whole games of 2 agents"),
    ({"agents": 3}, "'agents'.*must START together"),
    ({"scored": True}, "score of reset.*must carry a score"),
])
def test_a_spec_that_does_not_fit_is_said(fields, rule):
    vector = respecified(**fields)
    if fields.get("agents") == 3:  # rows whose episodes end at different times
        vector = type("Games", (vector,), {"step": games_out_of_step, "_count": 0})
    with pytest.raises(EnvironmentFailed, match=f"breaks the rule .*{rule}"):
        check_environment(lambda num_envs, seed: vector(num_envs, seed))


def games_out_of_step(env, actions):
    """The first row's episode ends in every third step, whatever the others do."""
    batch = env._env.step(actions)
    env._count += 1
    ends = np.array([env._count % 3 == 0, False, False])
    flags = np.where(ends, np.uint8(Flags.TERMINATED | Flags.START), np.uint8(0))
    return StepBatch(batch.observation, batch.reward, flags)


def test_parts_that_are_not_finite_are_said():
    spec = EnvironmentSpec("mine", (16,), "uint8", 3, parts=(Part("a", (2,), "float32"), Part("b", (2,), "float32")))

    class Packed(Broken):
        def __init__(self, num_envs, seed):
            super().__init__(self._pack, num_envs, seed)
            self.spec = spec

        def _pack(self, batch, _):
            rows = batch.observation.copy()
            rows[1, 3] = np.nan
            return StepBatch(**{**vars(batch), "observation": rows.view(np.uint8)})

    with pytest.raises(EnvironmentFailed, match=r"observation of reset.*part 'b' must be finite"):
        check_environment(lambda num_envs, seed: Packed(num_envs, seed))


def test_names_that_are_missing_are_said():
    class Unnamed(Broken):
        def __init__(self, num_envs, seed):
            super().__init__(lambda batch, _: batch, num_envs, seed)
            self.action_names = ("left",)

    with pytest.raises(EnvironmentFailed, match="action names.*there must be 3, there are 1"):
        check_environment(lambda num_envs, seed: Unnamed(num_envs, seed))


@pytest.mark.parametrize("frame, rule", [
    (np.zeros((4, 4, 3)), r"uint8 \[H, W, 3\], is float64"),
    (np.zeros((4, 4), np.uint8), r"uint8 \[H, W, 3\], is uint8 \(4, 4\)"),
    ("a picture", r"uint8 \[H, W, 3\], is a str"),
    (np.zeros((0, 4, 3), np.uint8), "between 1 and 4096 pixels"),
    (np.zeros((4, 5000, 3), np.uint8), "between 1 and 4096 pixels"),
])  # fmt: skip
def test_a_frame_that_is_none_is_said(frame, rule):
    class Drawn(Broken):
        def render(self, index):
            return frame

    with pytest.raises(EnvironmentFailed, match=f"'render'.*{rule}"):
        check_environment(lambda num_envs, seed: Drawn(lambda batch, _: batch, num_envs, seed))


class Drawing(CountingEnv):
    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, *, render_mode=None):
        super().__init__(life=1)
        self.render_mode = render_mode


def test_drawing_that_changes_what_happens_is_said():
    class Disturbed(Drawing):
        def render(self):
            self._step += 1
            return np.zeros((4, 4, 3), np.uint8)

    with pytest.raises(EnvironmentFailed, match="'render'.*must not change the trajectory"):
        check_environment(Disturbed)


def test_frames_are_counted_and_an_environment_whose_drawing_needs_a_package_is_checked_without():
    assert check_environment("testing/catch-v0").frames > 0
    assert check_environment("CartPole-v1", options={"max_episode_steps": 9}, steps=20).frames > 0

    class Undrawable(Drawing):
        def render(self):
            raise gymnasium.error.DependencyNotInstalled("pip install something")

    seen = check_environment(Undrawable)
    assert seen.frames == 0 and seen.episodes > 0


@pytest.mark.parametrize("ending, rule", [
    (lambda self, index: None, r"ending\(\d\) must be an Ending if the last step ended the episode"),
    (lambda self, index: Ending(np.zeros(4, np.float32), None), r"ending\(0\) must .* and None if it goes on"),
    (lambda self, index: self._env.ending(index) and Ending(np.zeros(4, np.float32), None), "the final observation"),
])
def test_an_ending_that_is_not_told_is_said(ending, rule):
    class Untold(Broken):
        pass

    Untold.ending = ending
    with pytest.raises(EnvironmentFailed, match=f"'ending'.*{rule}"):
        check_environment(lambda num_envs, seed, show: Untold(lambda batch, _: batch, num_envs, seed))


def test_endings_are_asked_of_a_vector_of_ones_own_only_where_it_is_told_that_it_is_looked_at():
    class Keeping(Broken):
        def __init__(self, num_envs, seed, show=None):
            super().__init__(lambda batch, _: batch, num_envs, seed)
            self.shown = show

        def ending(self, index):
            return self._env.ending(index) if self.shown else None

    asked = []

    def told(num_envs, seed, show):
        asked.append(show)
        return Keeping(num_envs, seed, show)

    assert check_environment(lambda num_envs, seed: Keeping(num_envs, seed)).episodes > 0
    assert check_environment(told).episodes > 0 and asked == [None, None, None, "frames"]
    assert check_environment(lambda num_envs, seed: make("testing/catch-v0", num_envs=num_envs, seed=seed)).episodes > 0


def test_an_environment_that_says_that_it_draws_and_gives_no_frame_is_said():
    class Blank(Drawing):
        def render(self):
            return None

    with pytest.raises(EnvironmentFailed, match=r"'render': render\(\) gave None"):
        check_environment(Blank, steps=20)


def test_threads_that_change_what_happens_are_said(monkeypatch):
    plain = atari.AtariVector

    def hasty(*given, threads, **options):
        return plain(*given, threads=threads, **{**options, "seed": options["seed"] + threads})

    pytest.importorskip("ale_py", reason="ale-py is not installed")
    monkeypatch.setattr(plain, "reset", lambda self, *, seed=None, of=plain.reset: of(self))  # by its own seed alone
    monkeypatch.setattr(registration, "AtariVector", hasty)
    with pytest.raises(EnvironmentFailed, match="'threads'.*2 threads"):
        check_environment("ALE/Pong-v5", steps=5)


def test_an_agent_that_comes_back_without_a_start_is_said():
    class Returning(Broken):
        def step(self, actions):
            batch = self._env.step(actions)
            out = np.array([False, False, CountingEnv.decode(batch.observation[2]).step == 3])
            flags = np.where(out, np.uint8(Flags.ABSENT), batch.flags)
            return StepBatch(**{**vars(batch), "flags": flags, "reward": np.where(out, 0, batch.reward)})

    with pytest.raises(EnvironmentFailed, match="'ABSENT'.*comes back with START"):
        check_environment(lambda num_envs, seed: Returning(lambda batch, _: batch, num_envs, seed))


def test_actions_that_are_not_refused_are_said():
    class Lax(Broken):
        def step(self, actions):
            return super().step(np.resize(actions, self.num_envs) % self.spec.num_actions)

    with pytest.raises(EnvironmentFailed, match="wrong actions.*must raise ShapeMismatch"):
        check_environment(lambda num_envs, seed: Lax(lambda b, _: b, num_envs, seed))


@pytest.mark.parametrize("lax, words", [
    (lambda actions: np.resize(actions, (3, 1)), "there are 3 environments"),
    (lambda actions: actions if np.isnan(actions).any() else np.clip(actions, -1, 1), r"numbers in \[-1, 1\]"),
    (lambda actions: np.nan_to_num(actions), r"numbers in \[-1, 1\]"),
    (lambda actions: actions if actions.shape[1] else np.zeros((3, 1), np.float32), "one number is missing"),
])  # fmt: skip
def test_numbers_as_actions_that_are_not_refused_are_said(lax, words):
    class Lax:
        def __init__(self, num_envs, seed):
            self._env = make("Pendulum-v1", num_envs=num_envs, seed=seed)

        def __getattr__(self, name):
            return getattr(self._env, name)

        def step(self, actions):
            return self._env.step(lax(actions))

    with pytest.raises(EnvironmentFailed, match=f"wrong actions.*must raise ShapeMismatch: .*{words}"):
        check_environment(lambda num_envs, seed: Lax(num_envs, seed), steps=20)


@pytest.mark.parametrize("observation, words", [
    (np.full(4, 2.0, np.float32), r"values in \[2.0, 2.0\].* is not in Box.* A run takes such"),
    (np.zeros(4), "float64"),
])  # fmt: skip
def test_an_observation_outside_its_space_is_said(observation, words):
    class Outside(CountingEnv):
        def __init__(self):
            super().__init__(life=1)
            self.observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)

        def _observation(self):
            return observation

    with pytest.raises(EnvironmentFailed, match=f"observation space.*{words}"):
        check_environment(Outside)
    register_environment("outside", Outside)
    with pytest.raises(EnvironmentFailed, match=f"observation space.*{words}"):
        check_environment("outside")
    gymnasium.register("Outside-v0", entry_point=Outside, disable_env_checker=True)
    try:
        with pytest.raises(EnvironmentFailed, match=f"observation space.*{words}"):
            check_environment("Outside-v0")
    finally:
        del gymnasium.registry["Outside-v0"]


def test_a_member_outside_its_space_is_said_by_its_name():
    class Outside(CountingEnv):
        def __init__(self):
            super().__init__(life=1)
            box = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
            self.observation_space = gymnasium.spaces.Dict({"right": box, "outer": gymnasium.spaces.Tuple([box])})

        def _observation(self):
            return {"right": np.zeros(4, np.float32), "outer": (np.full(4, 3, np.float32),)}

    with pytest.raises(EnvironmentFailed, match=r"observation space.*'outer/0' \(float32.*values in \[3.0, 3.0\]"):
        check_environment(Outside)
