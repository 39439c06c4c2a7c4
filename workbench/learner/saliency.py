"""Saliency: how much each part of an observation counts for the action that was taken.

Both ways ask of the preference p(a_t): log π(a_t|x_t), or Q(x_t, a_t). The recurrent state is as it was: what the
network remembers of earlier observations is not followed.

    gradient    Σ |∂p(a_t)/∂x| over the stacked frames and channels (Simonyan et al. 2013, arXiv 1312.6034); x in 0 … 1
                where it is an image
    occlusion   ½ (p(a_t) - p'(a_t))², p' where a round patch of all stacked frames is blurred (Greydanus et al. 2018,
                arXiv 1711.00138, section 3.2, of the action taken instead of all logits): 144 patches in a grid of
                12 x 12, stretched to the image's size
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.algorithms import NetworkOutput
from workbench.algorithms.outlook import preference
from workbench.errors import InvalidInput, NetworkFailed
from workbench.learner.player import Player
from workbench.networks.observed import Observed
from workbench.trajectory import Array, EnvironmentSpec

GRID = 12  # patches along each side; the paper has 16, at 1.8 times the time
_PAPER_SIZE_PX, _PAPER_BLUR_PX, _PAPER_PATCH_PX = 80, 3.0, 5.0  # σ of both on its 80 x 80 images
_ROWS = 36  # perturbed images in one forward pass
_SAME = 1e-3  # relative error

Saliency = Callable[[Array], Array]  # of an action as its distribution keeps it


def saliency_of(player: Player, spec: EnvironmentSpec, *, method: str) -> Saliency:
    """From the action that `player` just took to its saliency, float32 [h, w], or [features] for vectors.

    Raises InvalidInput for the occlusion of vectors, and for observations of several parts.
    """
    if len(spec.seen) > 1:
        names = ", ".join(part.name for part in spec.seen)
        raise InvalidInput(f"saliency={method!r} shows one array, and observations of {spec.name} have the parts "
                           f"{names}. Use saliency=None.")
    if method == "gradient":
        return partial(_gradient, player, spec)
    if len(spec.seen[0].shape) != 3:
        raise InvalidInput(f"saliency='occlusion' blurs images, and observations of {spec.name} are vectors of "
                           f"{spec.observation_shape[0]}. Use saliency='gradient'.")
    return _Occlusion(player, spec)


# --- gradient ---------------------------------------------------------------------------------------------------------


def _gradient(player: Player, spec: EnvironmentSpec, action: Array) -> Array:
    observation, output = _differentiable(player)
    try:
        preferred = _preference(player, output, action)[0, 0]
        (slope,) = torch.autograd.grad(preferred, observation)
    except RuntimeError as error:
        raise NetworkFailed(f"the network cannot be differentiated by its observation: {error}. "
                            "Use saliency='occlusion'.") from None
    channels, *size = spec.seen[0].shape
    by_frame = slope.abs().view(spec.frame_stack, channels // spec.frame_stack, *size)
    found: Array = by_frame.sum((0, 1) if by_frame.ndim == 4 else 0).numpy()
    return found


def _differentiable(player: Player) -> tuple[Tensor, NetworkOutput]:
    """The last observation as a leaf of float32, and the network's output for it.

    Bytes have no gradient. A network takes floats for bytes in one of two ways: as 0 … 1 (ours), or as 0 … 255 where
    it divides itself; the one that gives the output that the bytes gave is right.
    """
    network, observation = _eyes(player)
    _, *others, state = player.inputs
    others, state = [one.clone() for one in others], tuple(part.clone() for part in state)
    errors = {}
    for scale in (1 / 255, 1.0) if observation.dtype == torch.uint8 else (1.0,):
        leaf = (observation.float() * scale).clone().requires_grad_()
        with torch.enable_grad():
            output, _ = network(leaf, *others, state)
        errors[scale] = _difference(output, player.output)
        if errors[scale] < _SAME:
            return leaf, output
    raise NetworkFailed("the network says something else of the same observation as float32, so that it has no "
                        "gradient there. Use saliency='occlusion'.")


def _eyes(player: Player) -> tuple[nn.Module, Tensor]:
    """The part of the network that sees, and the last observation as that sees it, [1, 1, *seen]."""
    network, observation = player.network, player.inputs[0]
    if isinstance(network, Observed) and player.spec.parts:
        return network.network, cast(Tensor, network.seen(observation))
    return network, observation


def _preference(player: Player, output: NetworkOutput, action: Array) -> Tensor:
    chosen = torch.as_tensor(action)
    return preference(output, action=chosen, config=player.config, actions=player.spec.actions)


def _difference(mine: NetworkOutput, theirs: NetworkOutput) -> float:
    """Relative."""
    a, b = (torch.cat([part.detach().float().flatten() for part in one]) for one in (mine, theirs))
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


# --- occlusion --------------------------------------------------------------------------------------------------------


class _Occlusion:
    """Blurs patches of what the player saw last."""

    def __init__(self, player: Player, spec: EnvironmentSpec) -> None:
        self._player = player
        height, width = spec.seen[0].shape[1:]
        self._size = (height, width)
        shrunk = min(height, width) / _PAPER_SIZE_PX
        self._blur = [_gaussian(torch.arange(size), torch.arange(size), _PAPER_BLUR_PX * shrunk)
                      for size in self._size]
        self._blur = [matrix / matrix.sum(1, keepdim=True) for matrix in self._blur]
        down, across = (_gaussian((torch.arange(GRID) + 0.5) * size / GRID - 0.5, torch.arange(size),
                                  _PAPER_PATCH_PX * shrunk) for size in self._size)
        self._patches = (down[:, None, :, None] * across[None, :, None, :]).flatten(0, 1)  # [144, H, W], 1 inside

    @torch.inference_mode()
    def __call__(self, action: Array) -> Array:
        """The saliency of `action`."""
        observation = _eyes(self._player)[1][0, 0]  # [channels, H, W]
        sharp = observation.float()
        blurred = self._blur[0] @ sharp @ self._blur[1].T
        before = _preference(self._player, self._player.output, action)[0, 0]
        scores = []
        for patches in torch.split(self._patches, _ROWS):
            images = sharp + patches[:, None] * (blurred - sharp)
            images = images.round() if observation.dtype == torch.uint8 else images
            after = self._preferences(images.to(observation.dtype), action)
            scores.append(0.5 * (after - before).square())
        grid = torch.cat(scores).view(1, 1, GRID, GRID)
        found: Array = F.interpolate(grid, self._size, mode="bilinear", align_corners=False)[0, 0].numpy()
        return found

    def _preferences(self, images: Tensor, action: Array) -> Tensor:
        _, *others, state = self._player.inputs
        rows = len(images)
        output, _ = _eyes(self._player)[0](
            images[None], *(one.expand(1, rows) for one in others),
            tuple(part.expand(rows, *part.shape[1:]).contiguous() for part in state),
        )
        return _preference(self._player, output, action)[0]


def _gaussian(centres: Tensor, places: Tensor, sigma: float) -> Tensor:
    """exp(-(x-c)²/2σ²), [centres, places]."""
    return (-0.5 * ((places - centres[:, None]) / sigma).square()).exp()
