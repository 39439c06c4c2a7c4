"""Networks by name, by default, or from a user's factory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from workbench.algorithms.action_masks import FIELDS
from workbench.algorithms.interface import Heads, PolicyCriticsOutput, PolicyValueOutput, QValueOutput
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed, UnknownName
from workbench.networks.actor_critics import ActorCritics
from workbench.networks.dueling import DuelingNetwork
from workbench.networks.normalization import Observed, needs_observed
from workbench.networks.policy_value import PolicyValueNetwork
from workbench.networks.torsos import (
    MLP,
    MLP256,
    ImpalaDeep,
    Joined,
    Numbers,
    football,
    impala_shallow,
    nature,
    small_cnn,
)
from workbench.networks.trying import error_text

NetworkFactory = Callable[[EnvironmentSpec], nn.Module]

NATURE_SIZE_PX = 84  # what the Nature torso was made for

_TORSOS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "football": football,
    "impala-deep": ImpalaDeep,
    "impala-shallow": impala_shallow,
    "mlp": MLP,
    "mlp-256": MLP256,
    "nature": nature,
    "small-cnn": small_cnn,
}
_OF_VECTORS = (MLP, MLP256, Numbers)
NAMES: tuple[str, ...] = tuple(sorted(f"{name}{memory}" for name in _TORSOS for memory in ("", "-lstm")))


def default_name(spec: EnvironmentSpec, *, recurrent: bool) -> str:
    """The default network: mlp for vectors, nature for images of 84 px or more, else small-cnn.

    Of several images the smallest decides. The name ends in "-lstm" if `recurrent`.
    """
    images = [part.shape for part in spec.seen if len(part.shape) == 3]
    large = images and min(min(shape[1:]) for shape in images) >= NATURE_SIZE_PX
    torso = "mlp" if not images else "nature" if large else "small-cnn"
    return f"{torso}-lstm" if recurrent else torso


def build(
    name: str | None, *, spec: EnvironmentSpec, heads: Heads, factory: NetworkFactory | None = None, seed: int,
    normalise: bool = False,
) -> nn.Module:
    """A new network for `spec`, the same for the same seed; PyTorch's global random state stays unchanged.

    Args:
        name: one of `NAMES`, a torso with or without an LSTM, or None for the default; ignored if there is a factory.
        spec: observations and actions of the environment.
        heads: the algorithm's heads on top of the torso; ignored if there is a factory.
        factory: makes a network that implements `algorithms.interface.Network`.
        seed: of the initial weights.
        normalise: float32 observations by their running mean and variance.

    Raises:
        UnknownName: no network has that name.
        ShapeMismatch: the network cannot read such observations.
        NetworkFailed: the factory raised, did not return an nn.Module, or the heads' output knows no action masks.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        name = name or default_name(spec, recurrent=heads.recurrent)
        if factory is None and name not in NAMES:
            raise UnknownName.among("network", name, NAMES)
        network = _from_name(name, spec, heads) if factory is None else _from_factory(factory, spec)
        if spec.action_mask is not None and not set(FIELDS) & set(getattr(heads.output, "_fields", ())):
            raise NetworkFailed(f"{spec.name} has action masks, which an output knows in its fields "
                                f"{' and '.join(FIELDS)}, and {heads.output.__name__} has neither. Call so what it "
                                "chooses by.")
        return Observed(network, spec, normalise=normalise) if needs_observed(spec, normalise=normalise) else network


def _from_name(name: str, spec: EnvironmentSpec, heads: Heads) -> nn.Module:
    lstm_size = heads.lstm_size if name.endswith("-lstm") else 0
    make = _TORSOS[name.removesuffix("-lstm")]
    torso = partial(_torso, make, spec)
    used = {QValueOutput: "dueling_size", PolicyCriticsOutput: "critic_size"}.get(heads.output)
    if used is not None and getattr(heads, used) < 1:
        raise NetworkFailed(f"Heads({used}={getattr(heads, used)!r:.100}) must be a number of units, 1 or more, or "
                            "nothing is learnt.")
    if heads.output is QValueOutput:
        return DuelingNetwork(torso(), num_actions=spec.num_actions, lstm_size=lstm_size,
                              dueling_size=heads.dueling_size)
    if heads.output is PolicyCriticsOutput:
        critic_torso = _torso(Numbers, spec) if make is MLP256 else torso()  # critics have two such layers themselves
        return ActorCritics(torso(), critic_torso, actions=spec.actions, critic_size=heads.critic_size,
                            lstm_size=lstm_size)
    if heads.output is not PolicyValueOutput:
        raise NetworkFailed(f"no network that ships gives {heads.output.__name__}, which the algorithm asks for. Pass "
                            "one of your own: network=...")
    # A small policy has a torso of its own, which the value's large gradients would disturb.
    value_torso = torso() if make in _OF_VECTORS and not lstm_size else None
    return PolicyValueNetwork(torso(), actions=spec.actions, value_torso=value_torso, lstm_size=lstm_size,
                              popart=heads.popart)


def _torso(make: Callable[[tuple[int, ...]], Any], spec: EnvironmentSpec) -> Any:
    """A torso for the observation's only array, or for all of its parts."""
    if [part.name for part in spec.seen] == [""]:
        return make(spec.seen[0].shape)
    if not spec.shows_images and make not in _OF_VECTORS:
        make(spec.seen[0].shape)  # raises, because it needs images
    return Joined({part.name: part.shape for part in spec.seen}, make, make if make in _OF_VECTORS else MLP)


def _from_factory(factory: NetworkFactory, spec: EnvironmentSpec) -> nn.Module:
    try:
        network = factory(spec)
    except Exception as error:
        raise NetworkFailed(f"the network factory raised {error_text(error)}") from error
    if not isinstance(network, nn.Module):
        raise NetworkFailed(f"the network factory must return a torch.nn.Module, not {type(network).__name__}.")
    return network
