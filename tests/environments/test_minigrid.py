"""MiniGrid's symbols as planes: nothing is lost, and they lie as in a picture."""

import numpy as np
import pytest

minigrid = pytest.importorskip("minigrid", reason="minigrid is not installed")

import gymnasium  # noqa: E402
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX  # noqa: E402
from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper, RGBImgPartialObsWrapper  # noqa: E402

from workbench.environment_spec import Part  # noqa: E402
from workbench.environments import make  # noqa: E402
from workbench.environments.adapters.minigrid import CHOICES, PackedPlanes  # noqa: E402
from workbench.environments.adapters.wrapping import Wrapped  # noqa: E402
from workbench.environments.contract import random_actions, seeds_of  # noqa: E402
from workbench.environments.observations import decode  # noqa: E402
from workbench.errors import EnvironmentFailed  # noqa: E402
from workbench.testing import check_environment  # noqa: E402

NAME = "MiniGrid-DoorKey-5x5-v0"


def symbols(planes):
    """MiniGrid's own image [x, y, 3] from planes [20, y, x], by the meaning of each plane."""
    assert set(np.unique(planes)) <= {0, 255}
    starts = np.cumsum((0, *CHOICES))
    kinds = [planes[start:end] for start, end in zip(starts, starts[1:], strict=False)]
    assert all((kind == 255).sum(0).max() == (kind == 255).sum(0).min() == 1 for kind in kinds)
    return np.stack([kind.argmax(0).T for kind in kinds], axis=-1)


def test_there_is_a_plane_for_each_thing_that_minigrid_knows():
    assert (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), len(STATE_TO_IDX)) == CHOICES


@pytest.mark.parametrize("name", [NAME, "MiniGrid-MemoryS7-v0", "MiniGrid-Fetch-5x5-N2-v0", "BabyAI-GoToObj-v0"])
def test_every_view_comes_back_from_its_planes(name):
    env = make(name, num_envs=2, seed=3)
    assert env.spec.parts == (Part("image", (20, 7, 7), "bits"), Part("direction", (4,), "float32"))
    assert env.left_out == ("mission",) and env.spec.observation_shape == (123 + 16,)
    plain = [gymnasium.make(name) for _ in range(2)]
    batch = env.reset()
    views = [one.reset(seed=int(seed))[0] for one, seed in zip(plain, seeds_of(3, 2), strict=True)]
    rng = np.random.default_rng(0)
    for _ in range(60):
        seen = decode(batch.observation, env.spec.parts)
        for row, view in enumerate(views):
            assert np.array_equal(symbols(seen["image"][row]), view["image"])
            assert seen["direction"][row].tolist() == np.eye(4)[view["direction"]].tolist()
        actions = random_actions(env.spec, 2, rng)
        batch = env.step(actions)
        for row, one in enumerate(plain):
            views[row], _, terminated, truncated, _ = one.step(actions[row])
            if terminated or truncated:
                views[row] = one.reset()[0]


def test_the_planes_lie_as_in_a_picture_of_the_view():
    env = make("MiniGrid-Empty-5x5-v0", num_envs=1, seed=0)
    planes = decode(env.reset().observation, env.spec.parts)["image"][0]
    wall = planes[2] == 255  # the agent looks right along the upper wall, which is at its left hand; 3 cells are free
    assert wall[6, 2] and wall[3, 2] and not wall[6, 3] and not wall[5, 3]
    assert wall[2, 3]  # the wall ahead: 4 cells up from the agent's row


def test_a_number_that_names_nothing_is_refused():
    with pytest.raises(ValueError, match="has 11 as its object; there are 11"):
        PackedPlanes(7)(np.full((7, 7, 3), (11, 0, 0), np.uint8))
    with pytest.raises(ValueError, match="has 6 as its colour; there are 6"):
        PackedPlanes(7)(np.full((2, 7, 7, 3), (1, 6, 0), np.uint8))

    class Painted(gymnasium.ObservationWrapper):
        def observation(self, observation):
            return {**observation, "image": np.full((7, 7, 3), 200, np.uint8)}

    env = make("mine", num_envs=1, seed=0, factory=lambda: Painted(gymnasium.make(NAME)))
    with pytest.raises(EnvironmentFailed, match="observation 'image' has 200 as its object"):
        env.reset()


def test_views_of_a_batch_are_packed_as_one_by_one():
    views = np.random.default_rng(0).integers(0, 3, (2, 3, 7, 7, 3)).astype(np.uint8)
    packed = PackedPlanes(7)(views)
    assert all(np.array_equal(packed[i, j], PackedPlanes(7)(views[i, j])) for i in range(2) for j in range(3))


@pytest.mark.parametrize("wrapper, shape, parts", [
    (ImgObsWrapper, (123,), (Part("", (20, 7, 7), "bits"),)),
    (RGBImgPartialObsWrapper, (139 - 123 + 56 * 56 * 3,),
     (Part("direction", (4,), "float32"), Part("image", (3, 56, 56), "uint8"))),
    (FullyObsWrapper, (16 + 75,), (Part("direction", (4,), "float32"), Part("image", (3, 5, 5), "uint8"))),
])
def test_a_wrapper_of_the_user_decides_what_is_seen(wrapper, shape, parts):
    env = make("mine", num_envs=1, seed=0, factory=lambda: wrapper(gymnasium.make(NAME)))
    assert env.spec.observation_shape == shape and env.spec.parts == parts
    assert env.action_names == ("left", "right", "forward", "pickup", "drop", "toggle", "done")
    env.reset()


def test_a_whole_grid_as_large_as_the_view_is_a_picture():
    env = make("mine", num_envs=1, seed=0, factory=lambda: FullyObsWrapper(gymnasium.make("MiniGrid-MemoryS7-v0")))
    assert Part("image", (3, 7, 7), "uint8") in env.spec.parts
    env.reset()
    for _ in range(4):  # once around: a direction of 3 is no state of a door
        env.step(np.zeros(1, int))


def test_the_actions_are_named():
    assert make(NAME, num_envs=1, seed=0).action_names == (
        "left", "right", "forward", "pickup", "drop", "toggle", "done")


def test_a_level_with_fewer_actions_names_those_that_it_takes():
    env = make("MiniGrid-Dynamic-Obstacles-5x5-v0", num_envs=1, seed=0)
    assert env.action_names == ("left", "right", "forward")


def test_the_view_alone_is_the_same_planes():
    whole = make(NAME, num_envs=1, seed=0)
    alone = make(NAME, num_envs=1, seed=0, factory=Wrapped(None, (ImgObsWrapper,)))
    planes = decode(alone.reset().observation, alone.spec.parts)
    assert np.array_equal(planes, decode(whole.reset().observation, whole.spec.parts)["image"])


def test_another_size_of_view_has_planes_of_that_size():
    env = make(NAME, num_envs=1, seed=0, options={"agent_view_size": 3})
    assert env.spec.parts[0] == Part("image", (20, 3, 3), "bits")
    env.reset()


def test_it_keeps_the_contract():
    seen = check_environment("MiniGrid-Empty-5x5-v0", steps=120, options={"max_steps": 30})
    assert seen.truncated > 0 and seen.left_out == ("mission",) and seen.frames > 0
