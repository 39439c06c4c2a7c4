"""Choices that the environment does not allow: no algorithm takes one, and none learns from one."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text

import workbench as wb
from tests.algorithms.unrolls import random_unroll, with_final_observations
from tests.played import checkpoint_in
from workbench import algorithms, networks
from workbench.algorithms import PolicyValueOutput, QValueOutput, Roles
from workbench.algorithms.action_masks import NEVER, masked
from workbench.algorithms.distributions import Categorical
from workbench.config import ALGORITHMS, RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.environments import make
from workbench.environments.contract import allowed_choices, check_step, random_actions
from workbench.environments.observations import drawable
from workbench.errors import EnvironmentFailed, InvalidInput, NetworkFailed, ShapeMismatch
from workbench.playing.observation_edit import edited
from workbench.policies import check_algorithm

ROWS = 64


class Doors(gymnasium.Env[Any, Any]):
    """Doors of which some are open, others at each step. Each open one pays its share; a closed one is an error."""

    action_space = Discrete(5)
    observation_space = Dict(observation=Box(0, 1, (3,), np.float32), action_mask=MultiBinary(5))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        assert self.open[int(action)], f"door {action} is closed, {self.open} are open"
        self.steps += 1
        reward = (int(action) - np.flatnonzero(self.open)[0]) / 4
        over, terminates = self.steps % 20 == 0, self.np_random.random() < 0.5
        return self.seen(), float(reward), over and terminates, over and not terminates, {}

    def seen(self) -> dict[str, Any]:
        self.open = self.np_random.permutation([1, 1, *self.np_random.integers(0, 2, 3)]).astype(np.int8)
        return {"observation": self.np_random.random(3, np.float32), "action_mask": self.open}


def spec_of(actions: ActionSpec | None = None, **more: Any) -> EnvironmentSpec:
    sizes = actions.sizes if actions else (5,)
    parts = (Part("observation", (3,), "float32"), Part("action_mask", (sum(sizes),), "float32"))
    return EnvironmentSpec("masked", (sum(part.wire_bytes for part in parts),), "uint8", sum(sizes), actions=actions,
                           parts=parts, **more)


SPECS = {"one choice": spec_of(), "several": spec_of(ActionSpec("multi_discrete", (2, 3)))}


def rows_of(spec: EnvironmentSpec, mask: np.ndarray, seed: int = 0) -> torch.Tensor:
    """Observations uint8 [1, N, bytes] with these masks [N, choices]."""
    other = np.random.default_rng(seed).normal(size=(len(mask), 3)).astype(np.float32)
    packed = np.concatenate([other, mask.astype(np.float32)], 1)
    return torch.from_numpy(packed.view(np.uint8)[None])


def masks_of(spec: EnvironmentSpec, seed: int = 0) -> np.ndarray:
    """Masks float32 [N, choices] that allow at least one of each column."""
    random = np.random.default_rng(seed)
    mask = (random.random((ROWS, spec.num_actions)) < 0.4).astype(np.float32)
    for column in np.split(mask, np.cumsum(spec.actions.sizes)[:-1], axis=1):
        column[np.arange(ROWS), random.integers(0, column.shape[1], ROWS)] = 1
    return mask


def built(algorithm: str, spec: EnvironmentSpec, **fields: Any) -> tuple[Any, Any, RunConfig]:
    config = check_algorithm.smaller(RunConfig.build("x", algorithm=algorithm, **fields))
    one = algorithms.build(config, spec=spec)
    return one, networks.build("mlp", spec=spec, heads=one.heads, seed=0), config


def output_of(network: Any, observation: torch.Tensor, spec: EnvironmentSpec) -> Any:
    rows = observation.shape[1]
    action = torch.zeros(1, rows, *spec.actions.shape, dtype=torch.int64)
    with torch.no_grad():
        return network(observation, action, torch.zeros(1, rows), torch.zeros(1, rows, dtype=torch.bool),
                       network.initial_state(rows))[0]


# --- what is computed -------------------------------------------------------------------------------------------------


def test_probability_entropy_and_divergence_are_those_of_the_allowed_choices_alone():
    logits = torch.tensor([[[0.3, -1.0, 2.0, 0.5]]])
    other = torch.tensor([[[1.0, 5.0, -1.0, 9.0]]])
    mask, choice = torch.tensor([[[1.0, 0, 1, 0]]]), Categorical(4)
    few, few_others = (masked(PolicyValueOutput(each, torch.zeros(1, 1)), mask, sizes=(4,)).policy_logits
                       for each in (logits, other))
    alone, others_alone = logits[..., [0, 2]], other[..., [0, 2]]
    assert torch.equal(few.softmax(-1)[0, 0, [1, 3]], torch.zeros(2))
    torch.testing.assert_close(few.softmax(-1)[..., [0, 2]], alone.softmax(-1))
    torch.testing.assert_close(choice.entropy(few), choice.entropy(alone))
    torch.testing.assert_close(choice.kl(few_others, few), choice.kl(others_alone, alone))


def test_no_gradient_comes_through_what_is_not_allowed():
    logits = torch.randn(1, 1, 4, requires_grad=True)
    few = masked(QValueOutput(logits), torch.tensor([[[0.0, 1, 1, 0]]]), sizes=(4,)).q_values
    (Categorical(4).entropy(few) + few.log_softmax(-1)[..., 1]).sum().backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()
    assert torch.equal(logits.grad[0, 0, [0, 3]], torch.zeros(2)) and logits.grad[0, 0, 1] != 0


def test_a_mask_that_allows_nothing_allows_all_of_that_column():
    logits = torch.randn(1, 2, 5)
    mask = torch.tensor([[[0.0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]])
    few = masked(QValueOutput(logits), mask, sizes=(2, 3)).q_values
    assert (few == NEVER).tolist() == [[[False, False, False, True, True], [False] * 5]]


@pytest.mark.parametrize("stack", [1, 3])
def test_of_stacked_frames_the_newest_mask_counts(stack: int):
    spec = spec_of(frame_stack=stack)
    _, network, _ = built("ppo", spec)
    older = rows_of(spec, np.ones((ROWS, 5)))
    mask = masks_of(spec)
    observation = torch.cat([*[older] * (stack - 1), rows_of(spec, mask)], -1)
    assert ((output_of(network, observation, spec).policy_logits[0] == NEVER).numpy() == (mask == 0)).all()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_takes_what_is_allowed_alone(algorithm: str, spec: EnvironmentSpec, normalize: bool):
    try:
        one, network, config = built(algorithm, spec, normalize_observations=normalize)
    except InvalidInput:
        assert spec.actions.kind == "multi_discrete" and algorithm in ("r2d2", "sac")
        return
    chance, taken = torch.Generator().manual_seed(0), set()
    for turn in range(20):
        mask = masks_of(spec, turn)
        output = output_of(network, rows_of(spec, mask, turn), spec)
        roles = Roles(torch.zeros(ROWS), torch.zeros(ROWS, dtype=torch.bool))  # R2D2: those that explore most
        for greedy in (False, True):
            actions, fields = one.act(
                output, roles=roles, greedy=greedy, generator=chance, config=config.hyperparameters)
            firsts = np.cumsum([0, *spec.actions.sizes])[:-1]
            places = actions.numpy().reshape(ROWS, -1) + firsts
            assert (mask[np.arange(ROWS)[:, None], places] == 1).all()
            assert all(torch.isfinite(value).all() for value in fields.values())
            taken |= set(places.ravel().tolist())
        view = one.outlook(output, config=config.hyperparameters)
        assert view.scores.abs().max() < 1e6 and view.value.abs().max() < 1e6
    assert taken == set(range(5))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_keeps_its_rules_with_masks(algorithm: str, spec: EnvironmentSpec):
    try:
        one, network, config = built(algorithm, spec)
    except InvalidInput:
        return
    check_algorithm.check(one, network, spec=spec, config=config.hyperparameters)


# --- environments -----------------------------------------------------------------------------------------------------


def test_a_mask_of_something_else_is_refused_in_words():
    class Wrong(Doors):
        observation_space = Dict(observation=Box(0, 1, (3,), np.float32), action_mask=MultiBinary(4))

    class Chosen(Doors):
        observation_space = Dict(observation=Box(0, 1, (3,), np.float32), action_mask=Discrete(5))

    class Square(Doors):
        observation_space = Dict(observation=Box(0, 1, (3,), np.float32), action_mask=MultiBinary((5, 1)))

    class Numbers(Doors):
        action_space = Box(-1, 1, (5,), np.float32)

    class Deeper(Doors):
        observation_space = Dict(player=Doors.observation_space)

    for each, told in ((Deeper, "'player/action_mask', and a mask of actions is a member of the outermost Dict"),
                       (Wrong, r"'action_mask' of shape \[4\], and no mask of its actions, which are one choice \(5\)"),
                       (Chosen, "'action_mask' of choices, and no mask"), (Square, r"of shape \[5, 1\], and no mask"),
                       (Numbers, r"which are numbers \(5\)")):
        with pytest.raises(ShapeMismatch, match=told):
            make("doors", num_envs=2, seed=0, factory=each)


def test_random_actions_are_drawn_from_what_is_allowed():
    for spec in SPECS.values():
        mask, random = masks_of(spec), np.random.default_rng(0)
        rows = rows_of(spec, mask)[0].numpy()
        allowed = allowed_choices(rows, spec)
        assert np.array_equal(np.concatenate(allowed, 1), mask == 1)
        counts = np.zeros_like(mask)
        for _ in range(400):
            actions = random_actions(spec, ROWS, random, rows).reshape(ROWS, -1)
            np.add.at(counts, (np.arange(ROWS)[:, None], actions + np.cumsum([0, *spec.actions.sizes])[:-1]), 1)
        assert ((counts > 0) == (mask == 1)).all()


def test_an_environment_with_masks_is_checked_by_what_they_allow():
    checked = wb.check_environment(Doors, steps=200)
    assert checked.steps == 600 and checked.truncated > 0

    with pytest.raises(EnvironmentFailed, match=r"action mask of step.*row 0 is \[0\.0, .*above 0 for a choice"):
        wb.check_environment(Closed)


class Closed(Doors):
    """After seven steps no door is open, which its mask alone says."""

    def seen(self) -> dict[str, Any]:
        return {**super().seen(), "action_mask": self.open * (self.steps < 7)}

    def step(self, action: Any) -> Any:
        self.open[:] = 1
        return super().step(action)


class Added(Closed):
    """Its mask is one to add to logits."""

    observation_space = Dict(observation=Box(0, 1, (3,), np.float32), action_mask=Box(-1e9, 0, (5,), np.float32))

    def seen(self) -> dict[str, Any]:
        return {**Doors.seen(self), "action_mask": np.where(self.open == 1, 0, -1e9).astype(np.float32)}


@pytest.mark.parametrize(("environment", "where"), [(Closed, "step"), (Added, "reset")])
def test_an_actor_refuses_a_mask_that_leaves_an_agent_nothing(environment: type, where: str):
    vector = make("masked", num_envs=2, seed=0, factory=environment)
    step = vector.reset(seed=0)
    with pytest.raises(EnvironmentFailed, match=rf"rule in {where}: the action_mask of row 0 is .*above 0"):
        check_step(step, vector.spec, is_first=True)
        for _ in range(7):
            check_step(vector.step(np.zeros(2, np.int64)), vector.spec, is_first=False)


@pytest.mark.parametrize("algorithm", [
    "ppo", "r2d2", pytest.param("vtrace", marks=pytest.mark.full), pytest.param("sac", marks=pytest.mark.full)])
def test_a_run_acts_and_learns_within_its_masks(algorithm: str, home: Path):
    """A closed door would end the run."""
    short = {"replay_min_size": 8, "replay_size": 1000, "unroll_length": 10, "batch_size": 4}
    fields = {"r2d2": {**short, "burn_in": 2}, "sac": short}.get(algorithm, {})
    run = wb.launch(Doors, algorithm=algorithm, actors=1, envs_per_actor=8, total_frames=3000, seed=1, progress=False,
                    **fields)
    run.wait(timeout_s=300, progress=False)
    assert run.status.state == "finished" and run.status.updates > 0
    evaluation = wb.evaluate(run, episodes=5, seed=3)
    assert all(0 <= value <= 20 for value in evaluation.returns) and math.isfinite(evaluation.mean)


def test_a_rollout_shows_the_observation_without_its_mask_and_no_score_that_is_out_of_scale(home: Path):
    run = wb.launch(Doors, algorithm="r2d2", actors=1, envs_per_actor=8, total_frames=400, progress=False)
    run.wait(timeout_s=300, progress=False)
    rollout = wb.rollout(run, seed=3, saliency="gradient")
    assert rollout.saliency is not None and rollout.saliency.shape == (len(rollout.actions), 3)
    assert rollout.q_values is not None and np.abs(rollout.q_values).max() < 1e6
    drawn = drawable(rollout.observation_rows[:1], parts=rollout.parts).names
    assert drawn == tuple(f"observation[{at}]" for at in range(3))


def forbidding(algorithm: str, **fields: Any) -> tuple[Any, Any, Any, RunConfig]:
    """An algorithm, its network, and a batch in which every choice that was taken is forbidden, two others allowed."""
    spec = SPECS["one choice"]
    one, network, config = built(algorithm, spec, **fields)
    one.prepare(network)
    unrolls, length = [], one.overlap + config.hyperparameters.unroll_length
    for seed in range(config.hyperparameters.batch_size):
        unroll = random_unroll(spec, length=length, rng=np.random.default_rng(seed), ends=0,
                               behaviour=one.behaviour_fields())
        rows = rows_of(spec, np.tile(np.float32([0, 1, 1, 0, 0]), (length + 1, 1)), seed)
        unrolls.append(with_final_observations(
            dataclasses.replace(unroll, observation=rows[0].numpy(), action=np.zeros_like(unroll.action)),
            places=1, after=0, rng=np.random.default_rng(seed)))
    return one, network, algorithms.collate(unrolls), config


def test_nothing_is_learnt_from_a_stored_choice_that_a_mask_forbids():
    """As in a replay, or a recording, of before the environment had masks, or of a person who did as he liked."""
    for algorithm in ("r2d2", "bc"):
        one, network, batch, config = forbidding(algorithm)
        loss = one.loss(network, batch=batch, config=config.hyperparameters)
        assert all(value.abs().max() < 1e4 for value in (loss.total, *loss.scalars.values()))
        assert loss.priorities is None or loss.priorities.max() < 1e4
        term = loss.total if algorithm == "r2d2" else loss.scalars["policy_loss"]
        assert term == 0


def test_the_entropy_that_a_sac_of_choices_aims_at_is_one_that_they_can_reach():
    one, network, batch, config = forbidding("sac")
    loss = one.loss(network, batch=batch, config=config.hyperparameters)
    aim = loss.scalars["entropy"] - loss.scalars["temperature_loss"] / one.log_temperature.exp().detach()
    assert float(aim) == pytest.approx(0.5 * math.log(2), abs=1e-5)


@pytest.mark.parametrize("others", [{}, {"words": Text(9)}])
def test_a_mask_alone_is_one_too(others: dict[str, Any]):
    class Alone(Doors):
        observation_space = Dict(action_mask=MultiBinary(5), **others)

        def seen(self) -> dict[str, Any]:
            return {"action_mask": super().seen()["action_mask"], **dict.fromkeys(others, "abc")}

    made = make("doors", num_envs=2, seed=0, factory=Alone)
    assert made.spec.action_mask is not None and made.spec.seen[0].name == "action_mask"
    one, network, _ = built("ppo", made.spec)
    mask = masks_of(made.spec)
    rows = torch.from_numpy(mask.view(np.uint8)[None])
    assert ((output_of(network, rows, made.spec).policy_logits[0] == NEVER).numpy() == (mask == 0)).all()
    wb.check_environment(Alone, steps=50)
    assert drawable(rows[0].numpy(), parts=made.spec.parts).values.shape == (ROWS, 5)


@pytest.mark.parametrize(("space", "scale"), [
    (MultiBinary(5), 1), (Box(0, 255, (5,), np.uint8), 255), (Box(0, 9, (5,), np.int64), 3),
    (Box(0, 1, (5,), np.float32), 0.5), (Box(0, 1, (5, 1), np.float32), 1)])
def test_a_mask_may_be_of_any_numbers(space: Any, scale: float):
    class Scaled(Doors):
        observation_space = Dict({"observation": Box(0, 1, (3,), np.float32), "action_mask": space})

        def seen(self) -> dict[str, Any]:
            seen = super().seen()
            mask = seen["action_mask"] * float(scale)
            return {**seen, "action_mask": mask.reshape(space.shape).astype(space.dtype)}

    wb.check_environment(Scaled, steps=60)


def test_an_edit_of_an_observation_leaves_its_mask_alone():
    parts = (Part("action_mask", (5,), "float32"), Part("observation", (3,), "float32"))
    row = np.float32([1, 0, 1, 0, 1, 0.1, 0.2, 0.3]).view(np.uint8)
    assert drawable(row[None], parts=parts).names == tuple(f"observation[{at}]" for at in range(3))
    changed = edited(row, {"numbers": {"0": 9.0}}, parts=parts).view(np.float32)
    assert changed.tolist() == np.float32([1, 0, 1, 0, 1, 9, 0.2, 0.3]).tolist()


def test_an_output_that_knows_no_masks_is_refused_in_words():
    class Out(NamedTuple):
        logits: torch.Tensor
        value: torch.Tensor

    with pytest.raises(NetworkFailed, match="has action masks, .* policy_logits and q_values, and Out has neither"):
        networks.build(None, spec=spec_of(), heads=algorithms.Heads(Out), seed=0, factory=lambda _: torch.nn.Identity())


@pytest.mark.parametrize("output", [(torch.zeros(2, 3, 5), torch.zeros(2, 3)), torch.zeros(2, 3, 5), None])
def test_a_network_of_ones_own_whose_output_has_no_names_is_told_what_it_must_return(output):
    class Unnamed(torch.nn.Module):
        def initial_state(self, batch):
            return ()

        def forward(self, *inputs):
            return output, ()

    network = networks.build(None, spec=spec_of(), heads=algorithms.Heads(PolicyValueOutput), seed=0,
                             factory=lambda _: Unnamed())
    with pytest.raises(NetworkFailed, match="with a workbench.algorithms.PolicyValueOutput first, not a"):
        networks.check(network, spec=spec_of(), output=PolicyValueOutput)


def test_a_policy_in_ones_own_loop_refuses_a_mask_that_allows_nothing(tmp_path):
    env = Doors()
    policy = wb.load_policy(checkpoint_in(tmp_path, Doors), env=env)
    observation, _ = env.reset(seed=0)
    assert env.open[policy.act(observation)]
    for mask in (np.zeros(5, np.int8), np.int8([0, 0, 0, -1, 0])):
        with pytest.raises(InvalidInput, match="the action_mask of row 0 is .* must be above 0 for a choice"):
            policy.act({**observation, "action_mask": mask})
