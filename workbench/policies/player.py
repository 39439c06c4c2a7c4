"""A checkpoint's policy and its environment, to play with in a process of their own on the CPU."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workbench import algorithms, environments, networks
from workbench.algorithms import NetworkOutput
from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.frame_stacking import join_frames, push_frames
from workbench.algorithms.interface import State
from workbench.algorithms.own_code import act, own_code
from workbench.checkpoints import Checkpoint
from workbench.config import LearningConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.code_by_value import load_factory
from workbench.environments.contract import Show, VectorEnvironment
from workbench.errors import CheckpointCorrupt, NetworkFailed, ShapeMismatch, WorkbenchError, record_of
from workbench.networks.arrays import to_tensors
from workbench.policies import frozen_opponent, roles
from workbench.rundir import around, code_beside, sealed, untried
from workbench.trajectory import Array, Flags, StepBatch


@dataclass(frozen=True)
class LoadedPolicy:
    """A checkpoint's network, on the CPU and not to be trained, with what it takes to act by it."""

    network: nn.Module
    algorithm: algorithms.Algorithm
    spec: EnvironmentSpec
    config: LearningConfig


class Player:
    """A policy that plays N environments: the per-environment memory (frames, state, action) and the network.

    Attributes:
        policy: whose actions it takes.
        opponent: plays the rows `theirs` of the games, sampling its actions; None: nobody does.
        theirs: bool [N].
    """

    opponent: Player | None = None
    theirs: Array
    inputs: tuple[Any, ...]  # of the network at the last step: observation, previous action, reward, start, state
    output: NetworkOutput  # at the last step, T=1

    def __init__(self, policy: LoadedPolicy, *, num_envs: int, seed: int) -> None:
        self.policy, spec = policy, policy.spec
        self.theirs = np.zeros(num_envs, bool)
        self._roles = algorithms.Roles.evaluating(num_envs)
        self._generator = torch.Generator().manual_seed(seed)
        self.state: State = networks.initial_state(policy.network, num_envs)  # after the last step
        dtype = getattr(torch, spec.observation_dtype)
        self._stack = torch.zeros((num_envs, spec.frame_stack, *spec.observation_shape), dtype=dtype)
        self._distribution = distribution_of(spec.actions)
        self._action = torch.zeros((num_envs, *spec.actions.shape), dtype=getattr(torch, spec.actions.dtype))

    @property
    def chosen(self) -> Array:
        """The last actions as their distribution keeps them, [N, *action]."""
        return self._action.numpy()

    @torch.inference_mode()
    def act(self, step: StepBatch, *, greedy: bool) -> Array:
        """Actions [N, *action] for the environment, for the observations of `step`; 0 for agents that have left a game
        which others still play.

        Not `greedy`: as in an environment that evaluates.
        `inputs`, `output` and `state` are then what the network was given and what it said.
        """
        start = torch.from_numpy(step.start)
        observation = torch.from_numpy(np.ascontiguousarray(step.observation))
        self._stack = push_frames(self._stack, observation=observation, start=start)
        reward = torch.from_numpy(step.reward.astype(np.float32))
        previous = self._action.clone()
        previous[start] = 0  # as in training: an episode begins without one
        self.inputs = (join_frames(self._stack)[None], previous[None], reward[None], start[None], self.state)
        self.output, self.state = self.policy.network(*self.inputs)
        self._action, _ = act(self.policy.algorithm, self.output, roles=self._roles, greedy=greedy,
                              generator=self._generator, config=self.policy.config)
        sent: Array = self._distribution.to_environment(self._action).numpy()
        if self.opponent is not None:
            sent = sent.copy()  # of choices it is our own memory
            sent[self.theirs] = self.opponent.act(step, greedy=False)[self.theirs]
        absent = (step.flags & Flags.ABSENT) != 0
        if absent.any():
            sent = np.where(absent.reshape(-1, *[1] * (sent.ndim - 1)), sent.dtype.type(0), sent)
        return sent

    def reseed(self, seed: int) -> None:
        """Draw from here on as a new player with that seed, whose opponent has the next one."""
        self._generator.manual_seed(seed)
        if self.opponent is not None:
            self.opponent.reseed(seed + 1)

    @torch.inference_mode()
    def did(self, action: Array) -> None:
        """The first environment was given `action` [*action], as it takes it, in the place of what `act` returned."""
        self._action[0] = self._distribution.from_environment(torch.as_tensor(action, dtype=self._action.dtype))


def load_player(checkpoint: Checkpoint, *, num_envs: int, seed: int) -> Player:
    """The player of a checkpoint, against the opponent that its run has. Raises CheckpointCorrupt, NetworkFailed, and
    InvalidInput where the opponent's checkpoint is gone."""
    policy, config = load_policy(checkpoint), checkpoint.config
    player = Player(policy, num_envs=num_envs, seed=seed)
    if config.opponent is not None:
        against = load_opponent(frozen_opponent.known(checkpoint, config.opponent), policy.spec)
        player.opponent = Player(against, num_envs=num_envs, seed=seed + 1)
        player.theirs = roles.opposing(np.arange(num_envs), config, policy.spec.agents)
    return player


def load_opponent(checkpoint: Checkpoint, spec: EnvironmentSpec) -> LoadedPolicy:
    """The policy of a checkpoint, to play games of `spec`.

    Raises ShapeMismatch if it was trained with other spaces, and as `load_policy`.
    """
    policy = load_policy(checkpoint)
    if differing := spec.differing(policy.spec, spec.name):
        raise ShapeMismatch(f"the opponent {checkpoint.path} was trained in {differing}. Choose a checkpoint of the "
                            "same environment and options.")
    return policy


def load_policy(checkpoint: Checkpoint) -> LoadedPolicy:
    """The policy of a checkpoint. Raises CheckpointCorrupt (also of weights with NaN), NetworkFailed or
    AlgorithmFailed."""
    run, config, spec = around(checkpoint.path), checkpoint.config, checkpoint.spec
    if run.record.exists():
        config = untried.for_its_class(run, config)
    factory = _typed(checkpoint, "network")
    own = _typed(checkpoint, "algorithm")
    algorithm = algorithms.build(config, spec=spec, own=own)
    network = partial(networks.build, config.network, spec=spec, heads=algorithm.heads, factory=factory, seed=0,
                      normalise=config.hyperparameters.normalize_observations)
    weights = {name: torch.from_numpy(array) for name, array in checkpoint.load("model").items()}
    if factory is None:
        with torch.device("meta"):  # takes no memory: a stranger's network may have any size
            _fill(network(), weights, checkpoint, assign=True)
    else:
        networks.check(network(), spec=spec, output=algorithm.heads.output)
    filled = _fill(network(), weights, checkpoint)
    if broken := next((name for name, weight in filled.named_parameters() if weight.isnan().any()), None):
        raise CheckpointCorrupt(f"{broken} of {checkpoint.path} has NaN, so its policy cannot choose an action. "
                                "Choose an earlier checkpoint.")
    if own is not None and "algorithm" in checkpoint.groups:  # ours act by their network alone
        _restore(algorithm, filled, checkpoint)
    return LoadedPolicy(filled.eval().requires_grad_(False), algorithm, spec, config.hyperparameters)


def _restore(algorithm: algorithms.Algorithm, network: nn.Module, checkpoint: Checkpoint) -> None:
    """What a user's algorithm learnt beside the network. Raises AlgorithmFailed."""
    learnt = to_tensors(checkpoint.load("algorithm"))
    with own_code(algorithm, "prepare(network)"):
        algorithm.prepare(network)
    with own_code(algorithm, f"load_state(...) for a checkpoint that has {', '.join(learnt) or 'nothing'}"):
        algorithm.load_state(learnt)


def _fill(network: nn.Module, weights: dict[str, Tensor], checkpoint: Checkpoint, *, assign: bool = False) -> nn.Module:
    """The network with these weights, copied into its own, or in their place. Raises NetworkFailed if they differ."""
    try:
        network.load_state_dict(weights, assign=assign)
    except RuntimeError as error:
        raise NetworkFailed(f"the weights of {checkpoint.path} are not of the network {type(network).__name__}. One of "
                            "a user's own is not exported with its weights: give its class, network=..., as it was "
                            f"when they were trained, or play the checkpoint in its run.\n\n{error}") from None
    return network


def make_environment(
    checkpoint: Checkpoint, *, num_envs: int, seed: int, show: Show = None
) -> VectorEnvironment:
    """The environment that a checkpoint was trained in, with the same options; `show`: see `environments.make`.

    Raises ShapeMismatch where it has changed since, or the call was given another.
    """
    config = checkpoint.config
    sealed.check_module(around(checkpoint.path).code, config.environment, trust_code=checkpoint.trust_code)
    factory = _typed(checkpoint, "environment")
    vector = environments.make_configured(config, num_envs=num_envs, seed=seed, factory=factory, show=show)
    if differing := vector.spec.differing(checkpoint.spec, "the one of that name here"):
        vector.close()
        raise ShapeMismatch(f"{checkpoint.path} was trained in {differing}. Give the environment as it was, wrapped as "
                            "in training.")
    return vector


def _typed(checkpoint: Checkpoint, kind: str) -> Any:
    """What the call was given, or was typed in a cell for its run; None: neither, as of most exported checkpoints."""
    for folder in (checkpoint.code, code_beside(checkpoint.path)):
        if folder is not None:
            code = load_factory(folder / f"{kind}.pkl", trust_code=checkpoint.trust_code)
            if code is not None:
                return code
    return None


def answer(request: str, play: Callable[..., dict[str, Any]]) -> int:
    """Print what `play` returns for `request` (its arguments as JSON), or its error, as one line. The exit code.

    What environments and their programs print meanwhile goes to standard error.
    """
    torch.set_num_threads(1)
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        try:
            print(json.dumps(play(**json.loads(request))), file=answers)
            return 0
        except WorkbenchError as error:
            print(json.dumps({"error": record_of(error)}), file=answers)
            return 2
