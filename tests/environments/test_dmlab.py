"""The adapter for DeepMind Lab against a STAND-IN: the real package was never run here (it has no wheel).

What is tested is that the adapter calls the package as its documentation asks (see deepmind_lab_stand_in), and that
what it makes of the answers keeps our contract.
"""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.environments import deepmind_lab_stand_in as stand_in
from workbench.environments import make
from workbench.environments.dmlab.level_cache import LevelCache
from workbench.environments.dmlab.levels import DMLAB_30, NAMES, words_as_bits
from workbench.environments.observations import decode
from workbench.errors import EnvironmentFailed, MissingPackage, OutOfBounds, UnknownName
from workbench.testing import check_environment
from workbench.trajectory import Flags

WATERMAZE = "dmlab/rooms_watermaze"
LANGUAGE = "dmlab/language_select_described_object"


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setitem(sys.modules, "deepmind_lab", stand_in)
    monkeypatch.setattr(stand_in, "EPISODE_FRAMES", 50)
    stand_in.Lab.made.clear()
    yield stand_in
    stand_in.Lab.made.clear()



@pytest.mark.parametrize("name", [WATERMAZE, LANGUAGE])
def test_stand_in_levels_keep_the_contract(lab: ModuleType, name: str) -> None:
    seen = check_environment(name, steps=60)
    assert seen.episodes == 3 * (60 // 13) and seen.truncated == 0


def test_stand_in_gets_seeds_nine_actions_for_four_frames_and_strings_for_settings(lab: ModuleType) -> None:
    with closing(make(WATERMAZE, num_envs=2, seed=0)) as env:
        env.reset()
        assert env.action_names == ("forward", "backward", "strafe left", "strafe right", "look left", "look right",
                                    "forward + look left", "forward + look right", "fire")
        for action in range(9):
            env.step(np.array([action, 8]))
        one, two = lab.Lab.made
        assert one.actions == [  # google-research/seed_rl dmlab/env.py, DEFAULT_ACTION_SET
            [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, -1, 0, 0, 0], [0, 0, -1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0],
            [-20, 0, 0, 0, 0, 0, 0], [20, 0, 0, 0, 0, 0, 0], [-20, 0, 0, 1, 0, 0, 0], [20, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0]]
        assert one.num_steps() == 36 and env.spec.frames_per_step == 4 and env.fps == 15
        assert one.level == "contributed/dmlab30/rooms_watermaze"
        assert one.config == {"width": "96", "height": "72", "logLevel": "WARN"}
        assert one.seeds != two.seeds


def test_stand_in_frames_become_planes_and_episodes_end_terminated(lab: ModuleType) -> None:
    with closing(make(WATERMAZE, num_envs=1, seed=3, show="endings")) as env:
        assert env.spec.observation_shape == (3, 72, 96) and env.spec.parts == ()
        before = env.reset().observation
        for step in range(1, 13):  # 48 frames of 50
            batch = env.step(np.zeros(1, np.int64))
            assert batch.flags[0] == 0 and batch.reward[0] == 1 and env.ending(0) is None
            shown = lab.Lab.made[0].observations()["RGB_INTERLEAVED"]
            np.testing.assert_array_equal(batch.observation[0], shown.transpose(2, 0, 1))
            frame = env.render(0)
            assert frame is not None
            np.testing.assert_array_equal(frame, shown)
            before = batch.observation
            assert lab.Lab.made[0].num_steps() == 4 * step
        batch = env.step(np.zeros(1, np.int64))
        assert batch.flags[0] == Flags.TERMINATED | Flags.START and batch.reward[0] == 0.5  # two frames were left
        assert len(batch.final_index) == 0
        ending = env.ending(0)
        assert ending is not None and ending.frame is not None
        np.testing.assert_array_equal(ending.observation, before[0])
        np.testing.assert_array_equal(ending.frame, before[0].transpose(1, 2, 0))
        assert lab.Lab.made[0].num_steps() == 0  # the next episode, with a seed of its own
        assert len(set(lab.Lab.made[0].seeds)) == 2


def test_stand_in_instructions_become_a_part_of_the_observation(lab: ModuleType) -> None:
    with closing(make(LANGUAGE, num_envs=3, seed=0)) as env:
        batch = env.reset()
        assert [(part.name, part.shape, part.dtype) for part in env.spec.parts] == [
            ("image", (3, 72, 96), "uint8"), ("instruction", (512,), "bits")]
        seen = decode(batch.observation, env.spec.parts)
        assert isinstance(seen, dict)
        for index, one in enumerate(lab.Lab.made):
            observed = one.observations()
            np.testing.assert_array_equal(seen["image"][index], observed["RGB_INTERLEAVED"].transpose(2, 0, 1))
            expected = np.unpackbits(words_as_bits(observed["INSTR"])) * 255
            np.testing.assert_array_equal(seen["instruction"][index], expected)
            assert not seen["instruction"][index][4 * 32 :].any()  # four words
    with closing(make(LANGUAGE, num_envs=1, seed=0, options={"instruction": "off"})) as env:
        assert env.reset().observation.shape == (1, 3, 72, 96)
    with closing(make(WATERMAZE, num_envs=1, seed=0, options={"instruction": "on"})) as env:
        seen = decode(env.reset().observation, env.spec.parts)
        assert isinstance(seen, dict) and not seen["instruction"].any()  # a level that says nothing


def test_words_keep_their_place_and_two_words_differ() -> None:
    one, two = words_as_bits("red above Blue"), words_as_bits("blue above red")
    assert one.shape == (64,) and one.dtype == np.uint8
    np.testing.assert_array_equal(one[:4], two[8:12])
    np.testing.assert_array_equal(one[8:12], two[:4])
    np.testing.assert_array_equal(one[4:8], two[4:8])
    assert (one[:4] != one[4:8]).any()
    assert words_as_bits("a " * 40).reshape(16, 4).any(1).all() and not words_as_bits("").any()


def test_stand_in_keeps_generated_levels_in_the_cache_and_takes_them_from_there(
    lab: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "levels"
    fetched: list[bool] = []
    fetch = LevelCache.fetch

    def watched(cache: LevelCache, key: str, path: str) -> bool:
        fetched.append(fetch(cache, key, path))
        return fetched[-1]

    monkeypatch.setattr(LevelCache, "fetch", watched)
    for _ in range(2):
        with closing(make("dmlab/explore_goal_locations_small", num_envs=2, seed=0,
                          options={"level_cache": str(folder)})) as env:
            env.reset()
    assert fetched == [False, False, True, True]
    kept = [file for file in folder.rglob("*") if file.is_file()]
    assert len(kept) == 2 and all(file.read_text().startswith("contributed/dmlab30/explore") for file in kept)


def test_stand_in_evaluation_uses_levels_and_seeds_of_their_own(lab: ModuleType) -> None:
    with closing(make(WATERMAZE, num_envs=1, seed=0, options={"evaluation": True})) as env:
        held_out = env.reset().observation
        assert lab.Lab.made[-1].config["allowHoldOutLevels"] == "true"
        assert lab.Lab.made[-1].config["mixerSeed"] == str(0x600D5EED)
    with closing(make(WATERMAZE, num_envs=1, seed=0)) as env:
        assert (env.reset().observation != held_out).any()
    make("dmlab/rooms_collect_good_objects_test", num_envs=1, seed=0).close()


def test_stand_in_levels_by_path_and_options_reach_the_package(lab: ModuleType) -> None:
    options = {"width": 64, "height": 48, "renderer": "hardware", "dataset": "/data", "runfiles": "/files"}
    with closing(make("dmlab/tests/empty_room_test", num_envs=1, seed=0, options=options)) as env:
        assert env.reset().observation.shape == (1, 3, 48, 64)
        made = lab.Lab.made[0]
        assert (made.level, made.renderer) == ("tests/empty_room_test", "hardware")
        assert made.config["datasetPath"] == "/data" and lab.runfiles_path() == "/files"


def test_stand_in_errors_name_the_level_and_say_where(lab: ModuleType) -> None:
    with pytest.raises(EnvironmentFailed, match=r"'dmlab/no/such' \(index 0\) raised RuntimeError in constructor"):
        make("dmlab/no/such", num_envs=1, seed=0)
    with pytest.raises(EnvironmentFailed, match="Unknown observation 'INSTR'"):
        make("dmlab/nav_maze_static_01", num_envs=1, seed=0, options={"instruction": "on"})
    with closing(make(WATERMAZE, num_envs=2, seed=0)) as env:
        env.reset()
        lab.Lab.made[-1].close()
        with pytest.raises(EnvironmentFailed, match=r"\(index 1\) raised RuntimeError in step: Environment in wrong"):
            env.step(np.zeros(2, np.int64))
    with pytest.raises(UnknownName, match="rooms_watermaze"):
        make("dmlab/rooms_watermaz", num_envs=1, seed=0)
    with pytest.raises(UnknownName, match="level_cache"):
        make(WATERMAZE, num_envs=1, seed=0, options={"level_cach": "x"})
    with pytest.raises(OutOfBounds, match="instruction"):
        make(WATERMAZE, num_envs=1, seed=0, options={"instruction": "maybe"})


def test_closing_closes_every_level_of_the_stand_in(lab: ModuleType) -> None:
    env = make(WATERMAZE, num_envs=3, seed=0)
    env.reset()
    env.close()
    env.close()
    assert [one.is_running() for one in lab.Lab.made] == [False] * 3


def test_without_the_package_it_is_said_how_to_get_it() -> None:
    with pytest.raises(MissingPackage, match="github.com/google-deepmind/lab"):
        make(WATERMAZE, num_envs=1, seed=0)


def test_dmlab_30_has_thirty_levels() -> None:
    assert len(set(DMLAB_30)) == 30 and len(set(NAMES)) == len(NAMES)
