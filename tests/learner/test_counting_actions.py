"""Actions of every kind and observations of several parts, through real environments, wire messages, inference and
unrolls: the environment shows what it was sent, and the network what it was told."""

import itertools
import time

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import nn

from tests.learner import counting
from workbench import algorithms, environments
from workbench.algorithms import PolicyValueOutput, collate, stack_frames
from workbench.algorithms.distributions import distribution_of
from workbench.config import RunConfig
from workbench.learner.inference.batcher import Request
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.metrics.meters import Meters
from workbench.networks.normalization import Observed, needs_observed
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.queue import UnrollQueue
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Flags
from workbench.wire.messages import GroupActions, GroupStep

LENGTHS = (3, 1, 6)
SPACES = {
    "categorical": Discrete(4),
    "multi_discrete": MultiDiscrete([3, 5]),
    "bernoulli": MultiBinary(3),
    "tanh_normal": Box(-1, 1, (2,), np.float32),
    "mixed": Dict({"move": Discrete(4), "throttle": Box(-1, 1, (2,), np.float32), "buttons": MultiBinary(3)}),
}
NOTHING = -9.0  # what is shown as sent after a reset

pytestmark = pytest.mark.usefixtures("padding")


def numbers_of(action) -> np.ndarray:
    """The numbers of an action, those of a dict one member after another."""
    members = action.values() if isinstance(action, dict) else [action]
    return np.concatenate([np.asarray(member, np.float32).reshape(-1) for member in members])


class EchoEnv(gymnasium.Env):
    """Shows episode, step + 1, and the action that it was sent; plain, or as parts: bits that do not fill their bytes
    (the step's binary digits) between the numbers. Ends in turn terminated and truncated."""

    def __init__(self, kind: str, parts: bool) -> None:
        self.action_space, self._parts = SPACES[kind], parts
        self._size = len(numbers_of(self.action_space.sample()))
        self._episode = self._step = -1
        self.observation_space = Box(-1e6, 1e6, (2 + self._size,), np.float32) if not parts else Dict({
            "board": MultiBinary((3, 5, 1)), "counts": Box(-1e6, 1e6, (2,), np.float32),
            "sent": Box(-1e6, 1e6, (self._size,), np.float32),
        })

    def reset(self, *, seed=None, options=None):
        self._episode, self._step = (0 if seed is not None else self._episode + 1), 0
        return self._shown(np.full(self._size, NOTHING)), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self._step += 1
        over, cut_off = self._step == LENGTHS[self._episode % len(LENGTHS)], bool(self._episode % 2)
        return self._shown(action), 0.5, over and not cut_off, over and cut_off, {}

    def _shown(self, action):
        counts = np.array([self._episode, self._step + 1], np.float32)
        sent = numbers_of(action)
        if not self._parts:
            return np.concatenate([counts, sent])
        digits = (self._step + 1) >> np.arange(15) & 1
        return {"board": digits.astype(np.int8).reshape(3, 5, 1), "counts": counts, "sent": sent}


class EchoNetwork(nn.Module):
    """Its value is the sum of step + 1 over the stacked frames, the newest weighing most, plus a thousand for each step
    of the episode that its state has counted, plus what it is told of the previous action, weighted; its policy changes
    with the step."""

    def __init__(self, spec) -> None:
        super().__init__()
        self.spec, self.told = spec, distribution_of(spec.actions)
        self.unused = nn.Parameter(torch.zeros(1))

    def initial_state(self, batch):
        return (torch.zeros(batch, 1),)

    def forward(self, observation, previous_action, reward, start, state):
        if isinstance(observation, dict):
            lit = observation["board"].unflatten(2, (self.spec.frame_stack, -1)).flatten(3)  # [T, B, S, 15]
            digits = 2.0 ** torch.arange(15, device=lit.device)
            assert observation["board"].dtype == torch.uint8
            steps = (lit.float() / 255 * digits).sum(-1)
            assert torch.equal(steps, observation["counts"].unflatten(2, (-1, 2))[..., 1]), "parts of different frames"
        else:
            steps = observation.unflatten(2, (self.spec.frame_stack, -1))[..., 1]
        (count,), counted = state, []
        for t in range(len(start)):
            count = count.masked_fill(start[t, :, None], 0.0) + 1
            counted.append(count[:, 0])
        told = self.told.encode(previous_action).masked_fill(start[..., None], 0.0)
        weights = torch.arange(1.0, told.shape[-1] + 1, device=told.device) / 8
        value = (steps * torch.arange(1.0, steps.shape[-1] + 1, device=steps.device)).sum(-1)
        value = value + 1000 * torch.stack(counted) + (told * weights).sum(-1)
        slopes = torch.linspace(-0.5, 0.5, self.spec.actions.parameters, device=steps.device)
        return PolicyValueOutput(steps[..., -1:] * slopes, value), (count,)


def played(kind: str, *, parts: bool, frame_stack: int, steps: int, groups: int = 2, size: int = 3):
    """Unrolls of `steps` rounds of two groups; with the spec, the algorithm and its configuration, and the network."""
    made = [environments.make("echo", num_envs=size, seed=0, frame_stack=frame_stack,
                              factory=lambda: EchoEnv(kind, parts)) for _ in range(groups)]
    spec = made[0].spec
    assert (spec.actions.kind, bool(spec.parts)) == (kind, parts)
    config = RunConfig.build("echo", envs_per_actor=groups * size, groups_per_actor=groups, unroll_length=4)
    algorithm = algorithms.build(config, spec=spec)
    plain = EchoNetwork(spec)
    network = Observed(plain, spec, normalise=False) if needs_observed(spec, normalise=False) else plain
    layout = UnrollLayout.of(algorithm, network, unroll_length=4)
    device = counting.device()
    inference = Inference(
        spec, config=lambda: config, algorithm=algorithm, policy=PublishedPolicy(network, version=7, device=device),
        assembler=UnrollAssembler(layout, num_envs=1), queue=UnrollQueue(1), device=device,
        num_envs=1, generator=device.generator(0), meters=Meters(), on_episode=lambda episode: None,
    )
    waiting = [group.reset(seed=0) for group in made]
    unrolls, replies = [], []
    for turn in range(steps):
        chosen = range(groups) if turn % 3 else range(turn % groups, turn % groups + 1)  # full and partial batches
        requests = []
        for number in chosen:
            message = GroupStep.decode(GroupStep(number, number * size, waiting[number]).encode(), spec)
            requests.append(Request(np.arange(size) + number * size, 1, message, replies.append, lambda: True,
                                    time.perf_counter()))
        unrolls += inference.step(requests)
        while replies:
            reply = GroupActions.decode(replies.pop().encode(), spec.actions)
            waiting[reply.group] = made[reply.group].step(reply.actions)
    return unrolls, spec, algorithm, config, network


def shown(unroll, spec, name):
    """Part `name` of an unroll's frames as the environment made it, cut out by hand."""
    if not spec.parts:
        return unroll.observation[:, :2] if name == "counts" else unroll.observation[:, 2:]
    numbers = unroll.observation[:, 2:].copy().view("<f4")  # behind two bytes of fifteen bits
    return numbers[:, :2] if name == "counts" else numbers[:, 2:]


@pytest.mark.parametrize(("parts", "frame_stack"), [(False, 1), (False, 3), (True, 1), (True, 3)])
@pytest.mark.parametrize("kind", list(SPACES))
def test_unrolls_keep_the_actions_that_the_environment_was_sent_and_the_network_told(kind, parts, frame_stack):
    unrolls, spec, algorithm, config, network = played(kind, parts=parts, frame_stack=frame_stack, steps=60)
    assert len(unrolls) > 40
    distribution, actions = distribution_of(spec.actions), []
    for unroll in unrolls:
        episode, count = shown(unroll, spec, "counts").T
        sent = shown(unroll, spec, "sent")
        assert unroll.action.dtype == unroll.previous_action.dtype == np.dtype(spec.actions.dtype)
        assert unroll.action.shape == (5, *spec.actions.shape)
        given = distribution.to_environment(torch.from_numpy(unroll.action)).numpy().reshape(5, -1)
        given_before = distribution.to_environment(torch.from_numpy(unroll.previous_action)).numpy().reshape(5, -1)
        actions.append(given)
        for t in range(5):
            start = bool(unroll.flags[t] & Flags.START)
            assert start == (count[t] == 1)
            if start:
                assert (unroll.previous_action[t] == 0).all() and (sent[t] == NOTHING).all()
            else:
                np.testing.assert_allclose(given_before[t], sent[t], 1e-6, err_msg="not the action that led here")
            if t and not start:
                assert (episode[t], count[t]) == (episode[t - 1], count[t - 1] + 1)
                np.testing.assert_allclose(given[t - 1], sent[t], 1e-6, err_msg="the environment got another action")
                np.testing.assert_array_equal(unroll.previous_action[t], unroll.action[t - 1])
            told = distribution.encode(torch.tensor(unroll.previous_action[t])).numpy() * (not start)
            expected = sum(max(count[t] - older, 0) * (frame_stack - older) for older in range(frame_stack))
            expected += 1000 * count[t] + (told * np.arange(1, len(told) + 1) / 8).sum()
            assert unroll.behaviour["value"][t] == pytest.approx(expected, abs=1e-3), "the network saw or was told more"
    if kind == "mixed":  # Gymnasium's order: buttons, move, throttle
        assert [part.name for part in spec.actions.parts] == ["buttons", "move", "throttle"]
        every = np.concatenate(actions)
        assert set(every[:, :3].flat) == {0, 1} and set(every[:, 3]) == {0, 1, 2, 3}
        assert (np.abs(every[:, 4:]) <= 1).all() and len(np.unique(every[:, 4:])) > 100
    if kind == "tanh_normal":
        assert all(np.abs(given).max() <= 1 for given in actions)
        assert max(np.abs(unroll.action).max() for unroll in unrolls) > 1, "unrolls keep u, not tanh(u)"
    assert len({tuple(row) for given in actions for row in given.tolist()}) > 3, "the policy chose one action only"
    flags = set(itertools.chain.from_iterable(unroll.flags.tolist() for unroll in unrolls))
    assert {int(Flags.TERMINATED | Flags.START), int(Flags.TRUNCATED | Flags.START), int(Flags.START), 0} <= flags

    batch = collate(unrolls)
    stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
    output, _ = network(stacked, batch.previous_action, batch.reward, batch.start, batch.initial_state)
    assert torch.allclose(output.value, batch.behaviour["value"], rtol=0, atol=1e-3), "training sees something else"
    loss = algorithm.loss(network, batch=batch, config=config.hyperparameters)
    ratios = loss.samples["importance_ratio"]
    assert (ratios - 1).abs().max() < 1e-5, "the kept parameters are not those that chose the action"


@pytest.mark.parametrize("kind", ["categorical", "tanh_normal"])
def test_a_truncation_bootstraps_from_the_final_observation_and_the_action_that_led_there(kind):
    unrolls, spec, *_ = played(kind, parts=True, frame_stack=2, steps=60)
    distribution, seen = distribution_of(spec.actions), 0
    for unroll in unrolls:
        _, count = shown(unroll, spec, "counts").T
        for t in range(1, 5):
            if not unroll.flags[t] & Flags.TRUNCATED:
                assert unroll.bootstrap_value[t] == 0
                continue
            told = distribution.encode(torch.tensor(unroll.action[t - 1])).numpy()
            last = count[t - 1]
            expected = last + 2 * (last + 1) + 1000 * (last + 1) + (told * np.arange(1, len(told) + 1) / 8).sum()
            assert unroll.bootstrap_value[t] == pytest.approx(expected, abs=1e-3)
            seen += 1
    assert seen > 5
