"""Unroll assembly step by step, where every value says which step of which environment it is; with frames in the arena
and, as on an accelerator, in a table of their own."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.frame_table import FrameTable
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Steps

SPEC = EnvironmentSpec("counting", (2, 3), "float32", 4, frame_stack=3)


def layout_of(unroll_length, overlap):
    return UnrollLayout(SPEC, unroll_length, overlap, {"value": ((), "float32"), "logits": ((4,), "float32")},
                        state_shapes=((2,), (3, 1)))


def full(numbers, shape, dtype="float32"):
    """[len(numbers), *shape], each row full of its number."""
    return np.broadcast_to(np.reshape(numbers, (-1, *[1] * len(shape))), (len(numbers), *shape)).astype(dtype)


class Feed:
    """Plays environments; step t of environment e is the number 1000·e + t, in every field."""

    def __init__(self, layout, *, kept, num_envs, stagger=False):
        device = Device("cpu", precision="fp32", pads=kept)
        self.frames = FrameTable(layout, device=device, slots=num_envs) if kept else None
        self.assembler = UnrollAssembler(layout, num_envs=num_envs, stagger=stagger, frames=self.frames)
        self.steps = np.zeros(100, np.int64)
        self.asked = 0  # rows whose states were fetched

    def play(self, env_ids, finals=None):
        rows = np.array(env_ids)
        numbers = 1000 * rows + self.steps[rows]
        begins = self.assembler.begins(rows)
        if self.frames is not None:  # with a frame of a row that pads the batch
            if handed_on := self.frames.handed_on():
                self.frames.copy(*map(torch.from_numpy, handed_on))
            places = torch.from_numpy(np.append(self.assembler.places(rows), 0))
            self.frames.write(places, torch.from_numpy(full([*numbers, -1], (2, 3))))
        self.asked += begins.sum()
        self.steps[rows] += 1
        steps = Steps(
            observation=full(numbers, (2, 3)), reward=full(numbers, ()),
            flags=full(numbers % 251, (), "uint8"), previous_action=numbers, action=numbers,
            bootstrap_value=full(numbers, ()), behaviour={"value": full(numbers, ()), "logits": full(numbers, (4,))},
            policy_version=np.full(len(rows), 7),
        )
        before = [full(numbers[begins], shape) for shape in ((2, 2, 3), (2,), (3, 1))]
        return self.assembler.append(rows, steps, before, finals)


def check(unroll, layout, first):
    """All that an unroll holds is of step `first` and those after it."""
    numbers = 1000 * unroll.env_id + first + np.arange(layout.length)
    for name, array in unroll.arrays().items():
        shape, dtype = layout.fields[name]
        array = np.asarray(array)
        assert array.shape == shape and array.dtype == dtype, name
        if name == "policy_version":
            expected = np.full(layout.length, 7)
        elif name == "flags":
            expected = numbers % 251
        elif name in layout.per_step:
            expected = full(numbers, shape[1:])
        else:
            expected = np.full(shape, numbers[0])
        np.testing.assert_array_equal(array, expected, err_msg=name)


@pytest.fixture(params=[False, True], ids=["arena", "table"])
def kept(request):
    """Whether the frames are in a table of their own."""
    return request.param


@pytest.mark.parametrize(("unroll_length", "overlap"), [(5, 0), (1, 0), (6, 4), (3, 8), (4, 4), (2, 6), (80, 40)])
def test_an_unroll_holds_consecutive_steps_and_what_preceded_its_first(unroll_length, overlap, kept):
    layout = layout_of(unroll_length, overlap)
    feed, found = Feed(layout, kept=kept, num_envs=3), {0: 0, 1: 0, 2: 0}
    for turn in range(4 * layout.length):
        for unroll in feed.play([2, 0] if turn % 3 else [0, 1, 2]):  # environment 1 is slower
            check(unroll, layout, found[unroll.env_id] * unroll_length)
            found[unroll.env_id] += 1
    assert min(found.values()) > 0
    for env_id, number in found.items():
        assert number == 1 + (feed.steps[env_id] - layout.length) // unroll_length, "an unroll came late or never"
    asked = sum(-(-feed.steps[env_id] // unroll_length) for env_id in found)
    assert feed.asked == asked, "states of steps at which no unroll begins"


@pytest.mark.parametrize(("unroll_length", "overlap", "envs"), [(20, 0, 32), (5, 3, 7), (1, 0, 4), (4, 2, 50)])
def test_staggered_environments_complete_their_unrolls_a_few_at_a_time(unroll_length, overlap, envs, kept):
    layout = layout_of(unroll_length, overlap)
    feed, rows = Feed(layout, kept=kept, num_envs=envs, stagger=True), np.arange(envs)
    feed.assembler.reset(rows, run_id=3)
    first: dict[int, int] = {}
    counts = []
    for _ in range(layout.length + 4 * unroll_length):
        unrolls = feed.play(rows)
        counts.append(len(unrolls))
        for unroll in unrolls:
            begin = int(unroll.reward[0]) - 1000 * unroll.env_id
            check(unroll, layout, begin)
            assert unroll.run_id == 3
            if unroll.env_id in first:
                assert (begin - first[unroll.env_id]) % unroll_length == 0
            else:
                assert begin < unroll_length
                first[unroll.env_id] = begin
    assert set(first) == set(rows.tolist())
    settled = counts[-2 * unroll_length :]
    assert sum(settled) == 2 * envs
    assert max(settled) <= 2 * envs / unroll_length + 2, "they come at once"


def test_a_life_that_ends_leaves_nothing_in_the_next(kept):
    layout = layout_of(4, 2)
    feed = Feed(layout, kept=kept, num_envs=2)
    assembler = feed.assembler
    for _ in range(5):
        feed.play([0, 1])
    assembler.reset(np.array([0]), run_id=9)
    assert assembler.begins(np.array([0, 1])).tolist() == [True, False]
    unrolls = [unroll for _ in range(layout.length) for unroll in feed.play([0, 1])]
    (fresh,) = [one for one in unrolls if one.env_id == 0]
    check(fresh, layout, first=5)
    assert fresh.run_id == 9
    other = next(one for one in unrolls if one.env_id == 1)
    check(other, layout, first=0)
    assert other.run_id == 0


def test_more_environments_find_room_and_disturb_none(kept):
    layout = layout_of(3, 1)
    feed = Feed(layout, kept=kept, num_envs=1)
    feed.play([0])
    feed.assembler.resize(4)
    unrolls = [unroll for _ in range(5) for unroll in feed.play([0, 3])]
    assert {one.env_id for one in unrolls} == {0, 3}
    for unroll in unrolls:
        check(unroll, layout, first=0)


@pytest.mark.parametrize("overlap", [0, 1, 4])
def test_memory_of_an_unroll_is_used_again_but_not_while_it_is_held(overlap, kept):
    layout, rng = layout_of(2, overlap), np.random.default_rng(0)
    feed, envs, held = Feed(layout, kept=kept, num_envs=3), 3, []
    most, places = 0, set()
    for turn in range(250):
        if turn == 60:
            envs = 5
            feed.assembler.resize(envs)
        held += [(one, int(one.reward[0]) - 1000 * one.env_id) for one in feed.play(range(envs))]
        most = max(most, len(held))
        if turn >= 100:
            places |= {np.asarray(one.observation).ctypes.data for one, _ in held}
        if turn % 10 == 0:
            for number in range(len(held)):
                check(held[number][0], layout, held[number][1])
        held = [one for one in held if rng.random() < 0.9]
    assert most > 20
    assert len(places) <= 2 * (most + envs), "slots are not used again"


def test_the_bytes_of_an_unroll_are_those_of_its_arrays(kept):
    layout = layout_of(6, 4)
    feed = Feed(layout, kept=kept, num_envs=1)
    (unroll,) = [unroll for _ in range(layout.length) for unroll in feed.play([0])]
    assert sum(array.nbytes for array in unroll.arrays().values()) == layout.unroll_bytes


def test_final_observations_are_kept_with_the_unroll_that_trains_on_their_step():
    layout = replace(layout_of(60, 3), keeps_finals=True)  # two places
    feed, ends = Feed(layout, kept=False, num_envs=2), {0: [2, 10, 40, 50, 63, 64, 130], 1: [3, 63, 123, 126]}
    unrolls = []
    for number in range(200):
        truncated = [row for row in (0, 1) if number in ends[row]]
        frames = full([1000 * row + number for row in truncated], (2, 3))
        unrolls += feed.play([0, 1], (np.array(truncated, np.int64), frames) if truncated else None)
        if number == 129:
            feed.assembler.reset(np.array([1]), run_id=2)  # step 126 is of another life
    for unroll in unrolls:
        check_steps = {0: {0: [10, 40], 60: [64, 0], 120: [130, 0]}, 1: {0: [63, 0], 60: [123, 0], 130: [0, 0]}}
        first = int(unroll.action[0]) - 1000 * unroll.env_id
        steps = [step and step - first for step in check_steps[unroll.env_id][first]]
        assert unroll.final_step.tolist() == steps, (unroll.env_id, first)
        for step, frame in zip(unroll.final_step, unroll.final_observation, strict=True):
            assert not step or (frame == 1000 * unroll.env_id + first + step).all()
    assert len(unrolls) == 6


class Late(FrameTable):
    """A table whose frames are copied into a larger one after the call that lets it grow, as a GPU may do."""

    copied: torch.Tensor | None = None

    def grow(self, more):
        super().grow(more)
        self.copied = self._frames.clone()
        self._frames.fill_(-5)

    def handed_on(self):
        if self.copied is not None:
            self._frames.copy_(self.copied)
            self.copied = None
        return super().handed_on()


def test_unrolls_whose_completion_lets_the_arena_grow_are_whole_at_once():
    layout = layout_of(5, 2)
    feed = Feed(layout, kept=True, num_envs=3)
    feed.frames = feed.assembler._frames = Late(layout, device=Device("cpu", precision="fp32"), slots=3)
    held, sizes = [], set()
    for _ in range(8 * layout.length):
        for unroll in feed.play([0, 1, 2]):
            check(unroll, layout, int(unroll.reward[0]) - 1000 * unroll.env_id)
            held.append(unroll)
        sizes.add(feed.assembler.size)
    assert len(sizes) > 2, "it did not grow"
    for unroll in held:
        check(unroll, layout, int(unroll.reward[0]) - 1000 * unroll.env_id)
