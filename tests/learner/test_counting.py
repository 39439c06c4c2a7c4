"""The unroll machinery against an environment and a network that count, through real actors and real gRPC."""

import asyncio
import itertools
import os
import signal
from pathlib import Path

import pytest

from tests.learner.counting import (
    CountingEnv,
    Flags,
    Rig,
    actor,
    actor_of,
    check_consecutive,
    check_finals,
    check_replayed,
    check_unroll,
    rig,
)
from tests.played import code_of
from workbench import rundir
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments import make
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector

VECTOR = EnvironmentSpec("testing/counting-v0", (4,), "float32", 3)
IMAGE = EnvironmentSpec("testing/counting-v0", (1, 36, 36), "uint8", 3, frame_stack=4)

pytestmark = pytest.mark.usefixtures("padding")


def options(lengths, ends, image=False):
    return {"episode_length": list(lengths), "ends": ends, "image": image}


def lives_of(running, env_ids):
    return {unroll.run_id for unroll in running.unrolls if unroll.env_id in env_ids}


# episode lengths, how they end, unroll length, overlap, and whether environments begin one after the other
KINDS = [
    ([7], "terminated", 5, 0, True),
    ([1, 2, 3], "alternate", 4, 0, False),
    ([7, 3], "alternate", 6, 4, True),
    ([9], "truncated", 3, 8, False),
]
MORE = [
    ([7], "terminated", 5, 0, False),
    ([1, 2, 3], "alternate", 4, 0, True),
    ([5, 4], "truncated", 5, 0, False),
    ([5, 4], "truncated", 5, 0, True),
    ([50], "terminated", 1, 0, False),
    ([50], "terminated", 1, 0, True),
    ([7, 3], "alternate", 6, 4, False),
    ([9], "truncated", 3, 8, True),
]


@pytest.mark.parametrize(("lengths", "ends", "unroll_length", "overlap", "stagger"),
                         [*KINDS, *(pytest.param(*one, marks=pytest.mark.full) for one in MORE)])
def test_no_step_is_lost_repeated_or_shifted(lengths, ends, unroll_length, overlap, stagger):
    fields = {"actors": 2, "envs_per_actor": 6, "groups_per_actor": 2, "max_batch": 6, "unroll_length": unroll_length}
    with (
        rig(VECTOR, overlap=overlap, stagger=stagger, environment_options=options(lengths, ends), **fields) as running,
        actor(running.run, 0),
        actor(running.run, 1),
    ):
        running.collect_of_each(range(12), 15)
    for unroll in running.unrolls:
        check_unroll(unroll, lengths)
        assert len(unroll.reward) == overlap + unroll_length + 1
    check_consecutive(running.unrolls, shared=overlap + 1, left_out=stagger)
    check_replayed(running)


def test_frames_are_stacked_in_training_as_they_were_in_inference():
    lengths = [2, 9, 3]
    with (
        rig(
            IMAGE, environment_options=options(lengths, "alternate", image=True), actors=1, envs_per_actor=4,
            groups_per_actor=2, max_batch=4, unroll_length=5, frame_stack=4,
        ) as running,
        actor(running.run, 0),
    ):
        running.collect(120)
    for unroll in running.unrolls:
        check_unroll(unroll, lengths)
    check_replayed(running)
    assert {unroll.stack_prefix.shape[0] for unroll in running.unrolls} == {3}


def test_partial_batches_run_when_an_actor_sends_less_than_a_batch():
    lengths = [4]
    with (
        rig(
            VECTOR, environment_options=options(lengths, "terminated"), actors=2, envs_per_actor=5,
            groups_per_actor=3, max_batch=1000, batch_timeout_ms=1.0, unroll_length=3,
        ) as running,
        actor(running.run, 0),
        actor(running.run, 1),
    ):
        running.collect_of_each(range(10), 10)
    for unroll in running.unrolls:
        check_unroll(unroll, lengths)
    check_consecutive(running.unrolls, shared=1)


def test_an_actor_that_is_killed_and_comes_back_mixes_no_two_lives():
    lengths = [6, 11]
    fields = {"actors": 2, "envs_per_actor": 4, "groups_per_actor": 2, "max_batch": 4, "unroll_length": 7}
    with (
        rig(VECTOR, environment_options=options(lengths, "alternate"), **fields) as running,
        actor(running.run, 1),
    ):
        for _ in range(4):
            with actor(running.run, 0) as mortal:
                seen = lives_of(running, range(4))
                while lives_of(running, range(4)) == seen:
                    running.collect(10)
                mortal.send_signal(signal.SIGKILL)
        running.collect(20)
    for unroll in running.unrolls:
        check_unroll(unroll, lengths)
    check_consecutive(running.unrolls, shared=1)
    assert len(lives_of(running, range(4))) == 4
    assert len(lives_of(running, range(4, 8))) == 1, "the other actor was disturbed"


def test_where_a_reset_leaves_memory_behind_an_actor_replaces_itself_and_its_supervisor_sees_nothing(home):
    def factory(num_envs, seed):
        with open(made, "a") as file:
            print(os.getpid(), file=file)
        env = make("testing/counting-v0", num_envs=num_envs, seed=seed)
        env.keeps_memory_at_reset = True
        return env

    made = str(home / "made.txt")
    config = RunConfig.build("testing/counting-v0", actors=1, envs_per_actor=2, groups_per_actor=1, unroll_length=7)
    run = rundir.create("counting", {"config": config.to_json(), "created": 0.0},
                        code=code_of(environment=factory))
    with actor(run, 0) as process:
        for number in (1, 2, 3):
            with Rig(run, config, VECTOR).running() as running:  # a learner, which then goes away
                running.collect(4)
            assert Path(made).read_text().split() == [str(process.pid)] * number
        assert process.poll() is None
        process.stdin.close()  # as when its supervisor dies
        assert process.wait(240) == 0


def test_returns_and_lengths_of_episodes_are_the_environments_own():
    lengths = [1, 5, 3]
    with (
        rig(VECTOR, environment_options=options(lengths, "alternate"), actors=1, envs_per_actor=3,
            groups_per_actor=1, max_batch=3, unroll_length=4) as running,
        actor(running.run, 0),
    ):
        running.collect(60)
    for env_id in range(3):
        mine = [one for one in running.episodes if one.env_id == env_id]
        assert len(mine) > 10
        for number, episode in enumerate(mine):
            length = lengths[number % len(lengths)]
            assert episode.length_steps == length
            rewards = [CountingEnv.expected_reward(number, step) for step in range(1, length + 1)]
            assert episode.episode_return == pytest.approx(sum(rewards), rel=1e-5)


def test_every_kind_of_end_was_seen():
    """The checks above would pass on nothing: make sure that their cases occur."""
    lengths = [2, 3]
    with (
        rig(VECTOR, environment_options=options(lengths, "alternate"), actors=1, envs_per_actor=2, groups_per_actor=1,
            max_batch=2, unroll_length=4) as running,
        actor(running.run, 0),
    ):
        running.collect(20)
    flags = set(itertools.chain.from_iterable(unroll.flags.tolist() for unroll in running.unrolls))
    assert {int(Flags.TERMINATED | Flags.START), int(Flags.TRUNCATED | Flags.START), int(Flags.START), 0} <= flags


def test_replay_gets_unrolls_of_environments_that_train_with_the_state_of_their_first_burn_in_step():
    lengths = [7, 3]
    fields = {"actors": 2, "envs_per_actor": 6, "groups_per_actor": 2, "max_batch": 6, "unroll_length": 5,
              "burn_in": 3, "evaluation_envs_per_actor": 2}
    with (
        rig(VECTOR, algorithm="r2d2", environment_options=options(lengths, "alternate"), **fields) as running,
        actor(running.run, 0),
        actor(running.run, 1),
    ):
        running.collect_of_each([0, 1, 2, 3, 6, 7, 8, 9], 15)
    for unroll in running.unrolls:
        check_unroll(unroll, lengths)
        assert len(unroll.reward) == 3 + 5 + 1
    check_consecutive(running.unrolls, shared=4)
    check_finals(running.unrolls, lengths, overlap=3)
    assert any(unroll.final_step.any() for unroll in running.unrolls)
    check_replayed(running)
    assert {unroll.env_id for unroll in running.unrolls} == {0, 1, 2, 3, 6, 7, 8, 9}
    kinds = {(episode.kind, episode.env_id) for episode in running.episodes}
    assert kinds == {("evaluation" if env_id % 6 >= 4 else "training", env_id) for env_id in range(12)}
    shared = sum(len(unroll.reward) - 4 for unroll in running.unrolls)
    assert shared <= running.inference.steps, "what evaluates is not counted as steps"


class RunsItsOwnLoop(CountingEnv):
    """An environment that talks to something by asyncio, as simulators behind a socket and browsers do."""

    def step(self, action):
        async def answer():
            await asyncio.sleep(0)
            return super(RunsItsOwnLoop, self).step(action)

        return asyncio.run(answer())


def test_an_environment_may_run_an_event_loop_of_its_own():
    fields = {"actors": 1, "envs_per_actor": 4, "groups_per_actor": 2, "max_batch": 4, "unroll_length": 5}
    groups = [GymnasiumVector(VECTOR.name, lambda: RunsItsOwnLoop(episode_length=[3]), num_envs=2, seed=0)
              for _ in range(2)]
    with rig(VECTOR, **fields) as running, actor_of(running.run, groups):
        running.collect_of_each(range(4), 3)
    for unroll in running.unrolls:
        check_unroll(unroll, [3])
